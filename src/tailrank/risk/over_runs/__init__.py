"""Statistics of repeated runs: what is known after a few seeds, and how sure it is. Knows nothing of runs.

`seeds`: curves of several seeds as one line with a band. `intervals`: stratified bootstrap, shares, interquartile mean,
probability of improvement. `survival`: times until something happens, where it did not happen in every run.
"""

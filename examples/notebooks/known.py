# %% [markdown]
# # A problem that is known
# A machine earns 1 a day while it is on. Kept running it breaks one day in ten; mending it takes most of a day.

# %%
import tailrank as tr

rows = [
    ("on", "keep", "on", 0.9, 1.0),
    ("on", "keep", "off", 0.1, -2.0),
    ("on", "mend", "on", 1.0, 0.2),
    ("off", "mend", "on", 1.0, -1.0),
]
plan = tr.solve(rows, tau=0.1, horizon=10)
plan

# %% [markdown]
# The best mean is higher, its worst tenth is worse. What does the policy do? It depends on the budget that is left.

# %%
plan.to_frame().head(10)

# %%
print(plan.predict("on"))
plan.evaluate(episodes=1000, seed=0)

# %% [markdown]
# The price of safety, for every tau, from the same solve.

# %%
for tau in (0.05, 0.1, 0.2, 0.5, 1.0):
    print(tau, round(plan.frontier().cvar(tau), 3))

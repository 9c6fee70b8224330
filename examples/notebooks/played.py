# %% [markdown]
# # An environment that can only be played
# A lock with three right actions in a row; a tempting action pays more on average and little in its worst tenth.

# %%
import tailrank as tr

learned = tr.learn("rich-lock", tau=0.1, episodes=100, horizon=3, seed=0)
learned

# %% [markdown]
# What the model promises is a belief. Fresh episodes test it.

# %%
estimate = learned.evaluate(episodes=300, seed=1)
print(estimate)

# %%
learned.save("lock.policy")
again = tr.load("lock.policy")
print(again)
assert again.evaluate(tr.make("rich-lock", horizon=3), episodes=300, seed=1).cvar == estimate.cvar

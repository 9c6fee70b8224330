"""Storm and tailrank side by side on what both can do: the best expected reward and the best chance to reach a target.

    python benchmarks/storm.py write FOLDER [STATES]   with tailrank: random problems, and tailrank's answers and times
    python benchmarks/storm.py check FOLDER            with stormpy, in an environment of its own (it is GPL)
    python benchmarks/storm.py table FOLDER            with either: the table, and benchmarks/storm.json

Rewards are whole numbers of a state and an action, so that Storm's reward-bounded reachability applies: within H steps
(a second reward that counts them) at least c is earned. Nothing of Storm is imported by tailrank itself.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

HORIZON, ACTIONS, OUTCOMES, REWARDS, ROUNDS = 20, 3, 4, 4, 5
SIZES = (20, 60, 200)


def problem(states, seed):
    """next [S, A, K], prob [S, A, K] and reward [S, A] of a random MDP."""
    rng = np.random.default_rng([states, seed])
    after = np.stack([rng.choice(states, OUTCOMES, replace=False) for _ in range(states * ACTIONS)])
    prob = rng.dirichlet(np.ones(OUTCOMES), size=states * ACTIONS)
    reward = rng.integers(0, REWARDS, size=(states, ACTIONS))
    return after.reshape(states, ACTIONS, -1), prob.reshape(states, ACTIONS, -1), reward


def timed(run):
    """The median time of a few runs after the first one, and what the last returned."""
    seconds = []
    for i in range(ROUNDS + 1):
        began = time.perf_counter()
        value = run()
        if i:
            seconds.append(time.perf_counter() - began)
    return float(np.median(seconds)), value


def write(folder, sizes):
    """The problems with tailrank's answers."""
    from tailrank import FiniteMDP, Mean, Target, solve

    for states in sizes:
        after, prob, reward = problem(states, 1)
        s, a, _ = np.indices(after.shape)
        rows = (s.ravel(), a.ravel(), after.ravel(), prob.ravel(), np.repeat(reward.ravel(), OUTCOMES))
        mdp = FiniteMDP.from_rows(*rows, horizon=HORIZON, start=0)
        mean = timed(lambda mdp=mdp: solve(mdp, objective=Mean()).value)
        target = round(mean[1]) + 2
        chance = timed(lambda mdp=mdp, c=target: solve(mdp, objective=Target(c), undominated=False).value)
        arrays = {"after": after.tolist(), "prob": prob.tolist(), "reward": reward.tolist(), "target": target}
        found = {"mean": mean, "chance": chance}
        (folder / f"{states}.json").write_text(json.dumps(arrays | {"tailrank": found}))


def check(folder):
    """Storm's answers beside them."""
    import stormpy

    for path in sorted(folder.glob("[0-9]*.json")):
        data = json.loads(path.read_text())
        text = path.with_suffix(".prism")
        text.write_text(prism(data))
        program, found = stormpy.parse_prism_program(str(text)), {}
        for name, question in (
            ("mean", f'R{{"r"}}max=? [C<={HORIZON}]'),
            ("chance", f'Pmax=? [F{{"r"}}>={data["target"]},{{"clock"}}<={HORIZON} true]'),
        ):
            formulas = stormpy.parse_properties(question, program)
            model = stormpy.build_model(program, formulas)

            def run(formula=formulas[0], model=model):
                result = stormpy.model_checking(model, formula, only_initial_states=True)
                return float(result.get_value(model.initial_states[0]))

            found[name] = timed(run)
        path.write_text(json.dumps(data | {"storm": found, "version": stormpy.__version__}))


def prism(data):
    """The problem in the language of PRISM, with two rewards: what is earned, and the steps."""
    moves, earned, steps = [], [], []
    for s, actions in enumerate(data["after"]):
        for a, after in enumerate(actions):
            chances = zip(after, data["prob"][s][a], strict=True)
            moves.append(f"[a{a}] s={s} -> " + " + ".join(f"{p!r}:(s'={t})" for t, p in chances) + ";")
            earned.append(f"[a{a}] s={s} : {data['reward'][s][a]};")
    steps = [f"[a{a}] true : 1;" for a in range(ACTIONS)]
    module = ["mdp", "module m", f"s:[0..{len(data['after']) - 1}] init 0;", *moves, "endmodule"]
    return "\n".join([*module, 'rewards "r"', *earned, "endrewards", 'rewards "clock"', *steps, "endrewards", ""])


def table(folder):
    """Print the table."""
    kept = []
    print("| states | question | tailrank | Storm | tailrank, ms | Storm, ms |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for path in sorted(folder.glob("[0-9]*.json"), key=lambda p: int(p.stem)):
        data = json.loads(path.read_text())
        for name, question in (("mean", "best mean"), ("chance", f"chance of {data['target']} or more")):
            (mine, value), (theirs, other) = data["tailrank"][name], data["storm"][name]
            print(f"| {path.stem} | {question} | {value:.9g} | {other:.9g} | {1e3 * mine:.3g} | {1e3 * theirs:.3g} |")
            row = {"states": int(path.stem), "question": question, "tailrank": value, "storm": other}
            kept.append(row | {"tailrank_seconds": mine, "storm_seconds": theirs, "stormpy": data["version"]})
    Path(__file__).with_name("storm.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [int(x) for x in sys.argv[3:]] or SIZES
    {"write": lambda: write(folder, sizes), "check": lambda: check(folder), "table": lambda: table(folder)}[what]()

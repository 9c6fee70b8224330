"""Write the example models in examples/models: `python examples/make_models.py`."""

from __future__ import annotations

from pathlib import Path

from tailrank import FiniteMDP, write_mdp

HERE = Path(__file__).parent / "models"


def betting() -> FiniteMDP:
    """Ten rounds, 5 coins, bets 0..5: won with .7, ten times won with .05, else lost (Rigter et al. 2022)."""
    rows = []
    for have in range(101):
        for bet in range(min(5, have) + 1):
            for gain, p in ((bet, 0.7), (10 * bet, 0.05), (-bet, 0.25)):
                after = min(have + gain, 100)
                rows.append((have, bet, after, p, after - have))
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=10, start=5)


def counter_example() -> FiniteMDP:
    """The MDP on which Chow's decomposition fails (Hau et al. 2023); optimum 50 at tau = 0.5."""
    rows = [
        (0, 0, 1, 0.5, 0),
        (0, 0, 2, 0.5, 0),
        (1, 0, 3, 0.25, -600),
        (1, 0, 3, 0.75, 600),
        (1, 1, 3, 1.0, 0),
        (1, 2, 3, 0.5, -100),
        (1, 2, 3, 0.5, 400),
        (2, 0, 3, 1.0, 200),
    ]
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=2, start=0, n_states=4)


def cliff(width: int = 8, height: int = 5, slip: float = 0.1, steps: int = 60) -> FiniteMDP:
    """A grid: each step costs 1, the cliff below it costs 40 and ends the episode, moves slip sideways.

    The start is at the edge on the left, the goal beyond it on the right; actions are up, right, down, left.
    """
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    end = width * height
    rows = []
    for y in range(height):
        for x in range(width):
            if y == height - 1:
                continue
            for a in range(4):
                for turn, p in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                    dy, dx = moves[(a + turn) % 4]
                    to_y, to_x = min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)
                    fell = to_y == height - 1 and to_x < width - 1
                    goal = to_y == height - 1 and to_x == width - 1
                    after = end if fell or goal else to_y * width + to_x
                    rows.append((y * width + x, a, after, p, -41 if fell else -1))
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=steps, start=(height - 2) * width, n_states=end + 1)


MODELS = {"betting": betting, "counter_example": counter_example, "cliff": cliff}

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, make in MODELS.items():
        write_mdp(make(), HERE / f"{name}.json")

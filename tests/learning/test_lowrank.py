"""The low-rank oracle against brute force, and the learner that chooses between it and a block decoder."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from lowrank_parts import played, random_weights
from scipy import stats

import crashes
from tailrank import load
from tailrank.checks import InputError
from tailrank.envs import make_simulator
from tailrank.episodes.replay import Replay
from tailrank.episodes.rollout import play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.decoding.choose import Discriminative
from tailrank.learning.lowrank import ela, gaussians, network, pace
from tailrank.learning.lowrank.data import OutcomeData
from tailrank.learning.lowrank.ela import LowRankELA
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.leads import lead_of
from tailrank.learning.lowrank.oracle import LowRankOracle
from tailrank.learning.lowrank.planning import exploration_of, not_given_up, support_of
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.lowrank.transitions import SeenTransitions
from tailrank.learning.schedule import PRACTICAL
from tailrank.policies.lowrank import SupportPlan
from tailrank.risk.law import cvar
from tailrank.runs import run as runs
from tailrank.runs.config import RunConfig
from tailrank.runs.policy_files.lowrank import to_parts


class Stop(Exception):
    pass


def random_outcomes(rng, n=7, k=2, heads=3, K=3, L=2):
    return network.Outcomes(
        rng.normal(size=(n, k)), rng.integers(heads, size=n), rng.integers(L, size=n), rng.normal(size=(n, K))
    )


def test_likelihood_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    w, data = random_weights(rng), random_outcomes(rng)
    net = network.network_of(w, np.zeros(2), np.eye(2), 3)
    kinds, rewards = net.split(0, data.z)
    for i, value in enumerate(network.log_likelihoods(w, data)[0]):
        a, law = data.head[i], data.law[i]
        joint = kinds[i, a] * np.exp(data.log_psi[i]) * rewards[i, a, :, law]
        assert value == pytest.approx(np.log(joint.sum()))
    assert net.phi(0, data.z).sum(axis=2) == pytest.approx(1.0)
    again = network.weights_of(net)
    assert all(np.allclose(again[name], w[name], atol=1e-6) for name in w)


@pytest.mark.parametrize("name", ["hidden", "bias", "heads", "reward_heads", "tilt"])
def test_gradient_by_finite_differences(name):
    rng = np.random.default_rng(1)
    w, data = random_weights(rng), random_outcomes(rng)
    _, slopes = network.gradient(w, data)
    for index in np.ndindex(w[name].shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = {key: x.copy() for key, x in w.items()}
            moved[name][index] += step
            sides.append(network.log_likelihoods(moved, data)[0].mean())
        assert slopes[name][index] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-7)


def test_the_mean_of_networks_has_the_mean_of_logits():
    rng = np.random.default_rng(2)
    members, z = [random_weights(rng) for _ in range(3)], rng.normal(size=(5, 2))
    logits = [network._inner(w, z) @ w["heads"].reshape(7, -1) for w in members]
    joined = network.mean_of(members)
    assert network._inner(joined, z) @ joined["heads"].reshape(len(joined["heads"]), -1) == pytest.approx(
        np.mean(logits, axis=0)
    )


def test_of_many_transitions_each_carries_its_part_of_the_decay(fitted, monkeypatch):
    """Training on a third more than the search looked at has three quarters of the decay, as all its steps show."""
    _env, replay, fit = fitted
    found, n = [], OutcomeData.of(replay, 3).h.size
    monkeypatch.setattr("tailrank.learning.lowrank.oracle.QUICK", 3 * n // 4)
    monkeypatch.setattr(network.DecayedAdam, "step", lambda adam, *_: found.append(adam.decay))
    LowRankOracle(rank=3, shared=True, members=1).updated(fit, replay, rng=np.random.default_rng(0))
    assert found == pytest.approx([0.75 * fit.setting.decay] * len(found), rel=0.01)
    assert len(found) > 0


def test_em_on_psi_never_lowers_the_likelihood():
    """phi fixed: each M-step raises the log likelihood plus the log of the prior that shrinkage stands for."""
    rng = np.random.default_rng(3)
    z = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + 1.5])
    log_phi = np.log(rng.dirichlet(np.ones(3), size=len(z)))
    pooled, nu = np.cov(z.T), 4.0
    psi, last = gaussians.begin(z, 3, nu, rng, passes=0), -np.inf
    for _ in range(25):
        joint = log_phi + psi.log_densities(z)
        value = np.log(np.exp(joint).sum(axis=1)).sum() + gaussians.log_prior(psi, pooled, nu)
        assert value >= last - 1e-8
        last = value
        psi = gaussians.refit(z, gaussians.responsibilities(joint), pooled, nu)


@pytest.mark.parametrize("seed", range(4))
def test_a_mixture_finds_a_group_among_few_places_in_many_dimensions(seed):
    """Random starts alone miss it in most of 40 tries."""
    rng = np.random.default_rng(seed)
    far = np.arange(60) % 4 == 0
    z = rng.normal(size=(60, 8)) + 8.0 * np.outer(far, rng.permutation(np.eye(8)[0]))
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    side = gaussians.begin(z, 2, 16.0, rng).log_densities(z).argmax(axis=1)
    assert (side == side[0]).tolist() == far.tolist()
    many = gaussians.begin(rng.normal(size=(5, 1)), 8, 2.0, rng)  # more kinds than places
    assert np.isfinite(many.log_densities(z[:, :1])).all()


def test_gaussians_are_those_of_scipy():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(4)
    root = rng.normal(size=(3, 3))
    psi = gaussians.Gaussians(rng.normal(size=(1, 3)), gaussians.whitener(root @ root.T)[None])
    z = rng.normal(size=(5, 3))
    expected = multivariate_normal(psi.means[0], root @ root.T).logpdf(z)
    assert psi.log_densities(z)[:, 0] == pytest.approx(expected, rel=1e-6)


@pytest.fixture(scope="module")
def fitted():
    env, replay = played("continuous-lowrank", 150, horizon=5, n_features=3, d=3, n_actions=3, instance=7)
    return env, replay, LowRankOracle(rank=3, shared=True, members=2).fit(replay, 3, rng=np.random.default_rng(0))


def test_the_fit_is_better_than_a_blind_one_and_normalised(fitted):
    _env, replay, fit = fitted
    data = OutcomeData.of(replay, 3)
    blind = np.log(np.bincount(data.law) / data.law.size)[data.law]
    psi = gaussians.begin(data.after[data.followed & ~data.held], 3, 6.0, np.random.default_rng(0))
    weights = np.full(3, 1 / 3)
    marginal = np.where(data.followed, np.log(np.exp(psi.log_densities(data.after)) @ weights + 1e-300), 0.0)
    assert fit.held_out > (blind + marginal)[data.held].mean() + 0.1
    support = support_of(fit, replay, np.random.default_rng(0))
    assert support.weights[0].sum(axis=1) == pytest.approx(1.0)
    assert fit.network.phi(0, replay.features[:5, 0]).sum(axis=2) == pytest.approx(1.0)


def test_the_arrays_of_a_fit_are_in_order_as_a_checkpoint_gives_them_back(fitted):
    for psi in fitted[2].psi:
        assert all(array.flags.c_contiguous for array in psi.to_arrays().values())


def test_the_bonus_is_that_of_the_paper_on_the_learned_phi(fitted):
    _env, replay, fit = fitted
    explored = exploration_of(fit, replay, PRACTICAL, 3)
    data = OutcomeData.of(replay, 3)
    kinds = fit.network.split(0, replay.features.reshape(-1, 3))[0][np.arange(data.h.size), data.action]
    lam = max(PRACTICAL.lam(3, 5, 3, 0.0), 1e-6)
    covariance = kinds.T @ kinds + lam * np.eye(3)
    x = replay.features[:4, 0]
    some, places = fit.network.split(0, x)[0], fit.network.places(x)
    first = np.sqrt(np.einsum("nak,kl,nal->na", some, np.linalg.inv(covariance), some)) * explored.alpha
    without = explored.bonus(0, some, places) - first
    assert (without > 0).all()
    assert (without < explored.watchful).all()


def test_likelihood_puts_the_right_model_in_charge():
    """The low-rank family has no clusters; in the lock they are all there is."""
    low, lock = make_simulator("continuous-lowrank", horizon=4), make_simulator("rich-lock", horizon=2, n_actions=3)
    learner = LowRankELA(tau=0.2, lowrank=LowRankOracle(rank=3, shared=True, members=1, epochs=8), pilot=40)
    state = learner.init(low, Streams(1))
    assert state.fit is not None
    assert state.chosen.startswith("low rank")
    state = learner.init(lock, Streams(1))
    assert state.fit is None
    for _ in range(20):
        state, _ = learner.step(state, lock, Streams(1))
    assert state.fit is None
    assert state.episodes >= 40


def test_one_outcome_does_not_decide_between_models(monkeypatch):
    lock, learner = make_simulator("rich-lock", horizon=2, n_actions=3), LowRankELA(tau=0.2, pilot=40, longest_pilot=40)
    block = learner.block.init(lock, Streams(1))
    seen = OutcomeData.of(block.replay, 3)
    for outlier, sign in ((50.0, -1), (-50.0, -1), (0.2, 1)):
        gain = np.full(seen.h.size, -0.1 if abs(outlier) > 1 else outlier)
        gain[0] = outlier
        old = np.zeros(int((block.replay.lengths[:: ela.HELD]).sum()))
        monkeypatch.setattr(ela, "judged", lambda *_, old=old: old)
        monkeypatch.setattr(ela, "gains", lambda *_, gain=gain, **__: (SeenTransitions.of(block.replay), gain))
        assert np.sign(learner._lead(block, None, 3)) == sign


def test_models_that_differ_by_the_luck_of_episodes_lead_as_often_as_is_said():
    """The null: equal models, a gain that all steps of an episode share. Rates are those of the normal law."""
    rng, draws = np.random.default_rng(0), 4000
    for n, H in ((3, 5), (8, 5), (8, 20), (40, 10)):
        episode = np.repeat(np.arange(n) * ela.HELD, H)
        found = np.array([lead_of(np.repeat(rng.normal(0.0, 0.2, n), H), episode) for _ in range(draws)])
        for level in (1.0, 2.0):
            p = NormalDist().cdf(-level)
            for rate in (found > level).mean(), (found < -level).mean():
                assert abs(rate - p) < 4 * np.sqrt(p * (1 - p) / draws)


def test_the_lead_is_that_of_a_t_test_on_sums_of_episodes():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, 9)
    episode, gain = np.repeat(np.arange(9), lengths), rng.normal(0.2, 0.7, lengths.sum())
    sums = [np.clip(gain[episode == e], -1, 1).sum() for e in range(9)]
    p = stats.ttest_1samp(sums, 0.0, alternative="greater").pvalue
    order = rng.permutation(gain.size)
    assert lead_of(gain[order], episode[order]) == pytest.approx(NormalDist().inv_cdf(1.0 - p), abs=1e-9)
    assert lead_of(-gain, episode) == pytest.approx(-lead_of(gain, episode), abs=1e-12)
    assert lead_of(gain[:3], np.zeros(3)) == 0.0  # one episode tells nothing of its error
    assert np.isfinite(lead_of(np.ones(500), np.arange(500)))


def test_plans_are_made_more_often_while_the_tail_earns_nothing():
    learner, n = LowRankELA(tau=0.25), 200
    for tail, share in ((0.0, pace.SEEKING), (0.05, pace.SEEKING), (0.3, pace.SHARE)):
        replay = Replay(2, 1)
        returns = np.zeros(n)
        returns[0], returns[-20:] = 1.0, np.repeat([tail, 0.9], [5, 15])
        paid = 3.0 + np.stack([returns, np.zeros(n)], axis=1)  # what all steps pay changes nothing
        replay.add(np.zeros((n, 2, 1)), np.zeros((n, 2)), np.zeros((n, 2)), np.full(n, 2), paid)
        block = SimpleNamespace(episodes=n, replay=replay)
        assert learner.next_batch(LowRankState(block, None, fit=object())) == share * n
        assert learner.next_batch(LowRankState(block, None)) == 1  # the block model's


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.2, 0.25, 0.31, 0.6, 1.0])
def test_a_plan_that_gives_up_is_made_for_the_least_tail_that_does_not(tau):
    """Returns of two plans: A has 8 seven times in ten, B 10 in 63 of 100; else 0."""
    laws = [np.repeat([0.0, 8.0], [30, 70]), np.repeat([0.0, 10.0], [37, 63])]
    budgets = np.arange(11.0)
    curve = np.min([np.maximum(budgets[:, None] - law, 0.0).mean(axis=1) for law in laws], axis=0)
    plan = SupportPlan((curve[None],), np.zeros(1, dtype=np.int64), 1.0, -1.0, -1.0, curve)
    levels = [min(tau * 2**i, 1.0) for i in range(6)]
    level = next(x for x in levels if max(cvar(law, x) for law in laws) > 0)
    best = laws[int(np.argmax([cvar(law, level) for law in laws]))]
    found = not_given_up(plan, tau)
    assert found.budget == (-1.0 if level == tau else best.max())
    assert found.objective == plan.objective


def test_settings_are_searched_for_only_where_a_quick_fit_wins(monkeypatch):
    def search(*_, **__):
        raise Stop

    lock, learner = make_simulator("rich-lock", horizon=2, n_actions=3), LowRankELA(tau=0.2, pilot=40, longest_pilot=40)
    monkeypatch.setattr(LowRankOracle, "candidate", lambda *_, **__: None)
    monkeypatch.setattr(LowRankOracle, "fit", search)
    for lead, compared in ((0.9, 40), (-4.9, 40), (-5.1, 80)):
        monkeypatch.setattr(LowRankELA, "_lead", lambda *_, lead=lead: lead)
        assert learner.init(lock, Streams(1)).fit is None
        assert learner._compare(learner.block.init(lock, Streams(1)), lock, Streams(1), None).compared == compared
    monkeypatch.setattr(LowRankELA, "_lead", lambda *_: 1.1)
    with pytest.raises(Stop):
        learner.init(lock, Streams(1))
    few = replace(learner, pilot=39, longest_pilot=39).init(lock, Streams(1))  # too few to compare
    assert (few.fit, few.compared) == (None, 39)


def test_known_laws_of_rewards_are_not_learned():
    env = make_simulator("continuous-lowrank", horizon=3, n_features=2, d=3, n_actions=2)
    oracle = LowRankOracle(rank=2, shared=True, members=1, epochs=4)
    learner = LowRankELA(tau=0.2, lowrank=oracle, rewards=KnownRewards.of(env), pilot=40)
    state = learner.init(env, Streams(1))
    state, _ = learner.step(state, env, Streams(1))
    assert state.fit.network.sizes == (2, 1)
    policy, x = learner.greedy(state, env), state.replay.features[:5, 0]
    phi = policy.outcomes(0, x)[0].reshape(5, 2, 2, 3)
    assert phi.sum(axis=2) == pytest.approx(env.reward_laws(0, x))
    assert phi.sum(axis=3) == pytest.approx(state.fit.network.split(0, x)[0])
    with pytest.raises(InputError, match="never stored"):
        to_parts(policy)
    arrays = state.to_arrays()
    again = learner.resumed(learner.state_from(arrays, state.replay), env)
    assert all(np.array_equal(a, b) for a, b in zip(again.policy.plan.tables, state.policy.plan.tables, strict=True))
    with pytest.raises(InputError, match="none of the 2 known levels"):
        replace(learner, rewards=KnownRewards(np.array([0.0, 1.0]), env.reward_laws)).init(env, Streams(1))
    with pytest.raises(InputError, match="need the model auto or lowrank"):
        LowRankELA(tau=0.2, rewards=KnownRewards.of(env), oracle=Discriminative(model="mixture"))


RUN = {
    "environment": "continuous-lowrank",
    "settings": {"horizon": 3, "n_features": 2, "d": 3, "n_actions": 2},
    "model": "lowrank",
    "rank": 2,
    "iterations": 4,
    "batch": 10,
    "checkpoint_every": 1,
    "evaluate_every": 2,
    "evaluation_episodes": 100,
    "output_episodes": 10,
}


def test_resumes_to_the_same_bytes_and_plays_from_a_file(tmp_path):
    config = RunConfig.from_dict(RUN)
    result = runs.run(config, tmp_path / "whole")

    def stop(row, iterations, star):
        if row["k"] == 2:
            raise Stop

    with pytest.raises(Stop):
        runs.run(config, tmp_path / "b", progress=stop)
    runs.resume(tmp_path / "b")
    assert crashes.outcome(tmp_path / "b") == crashes.outcome(tmp_path / "whole")
    policy = load(tmp_path / "whole" / "plan.safetensors").policy
    env = make_simulator("continuous-lowrank", **RUN["settings"])
    seeds = Streams(0).evaluation_seeds(0, 100)
    assert cvar(play_simulator(policy, env, seeds).returns, 0.1) == pytest.approx(result["cvar"], abs=1.0)
    assert policy.n_actions == 2
    assert policy.horizon == 3

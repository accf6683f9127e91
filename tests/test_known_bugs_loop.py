"""Bugs that users of public trainers have met, as properties of playing and of the loop.

Each was reported in a public issue tracker. Here is where each is tested; (loss),
(advantages) and (runs) are `test_known_bugs_loss.py` and so on.

1. Returns reset at observation tokens: (advantages), `test_algorithms.py` gae_steps_over.
2. KL of observation tokens leaks into the loss: (loss), (advantages).
3. Attention mask made from a loss mask or from pad ids: (loss); `test_lm.py`
   collector_and_learner_agree, with pad == eos.
4. A loss path that ignores the mask: (loss), all paths.
5. Masked in the numerator, counted in the denominator: (loss).
6. Everything masked gives NaN: (loss), and here nothing_to_learn.
7. Earlier messages of the prompt are trained on: here sampled_tokens.
8. Normalisation of each micro-batch: (loss); `test_lm.py` repeats_weigh_like_repeats.
9. The first observation is lost: `test_lm.py` the_first_observation_is_in_the_first_prompt.
10. A partial last batch in evaluation, doubled rewards, environments not reset: here in_pieces;
    `test_training.py` evaluation_of_a_run.
11. Resuming skips or repeats: (runs) killed_runs; `test_algorithms.py` and `test_training.py`
    stop_and_resume, kill_and_resume, buffer_round_trip.
12. A seed that does not fix the run: (runs) same_seed; here log_probabilities; `test_streams.py`
    global_generators_are_left_alone; `test_lm.py` episodes_do_not_depend_on_the_batch.
13. Tokenising again drifts: here sampled_tokens; `test_lm.py` chat_is_the_templates_own.
14. Mask and ids of different lengths: here sampled_tokens; `test_episode.py` broken_records.
15. Log-probabilities under padding: (loss), and here log_probabilities.
16. Collapse nobody notices: the metrics' entropy, (runs) not_finite; (loss).
17. NaN late in a run: (loss), and (runs) not_finite.
18. Scores that order attempts wrongly, answers like "A or B": here solved_scores_most, all_answers;
    `test_actions.py` refused.
19. Pictures and tokens that do not match: the learner reads text only, here pictures.
20. Environments that change under a result: here env_version; `test_entries.py`
    a_changed_record, `test_envs.py` golden_transcripts.
21. A cache left unused: here read_once; `test_lm.py` micro_batches_keep_everything.
22. Rewards for form are exploited: here score_not_reward; `test_robust.py`
    info_before_the_end; `test_sokoban_options.py` no_adversary, shaping_changes_neither.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import COORDS, MINI
from test_training import comparable, small, weights
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ftw_agents.agent import History
from ftw_agents.algorithms.base import scores_of
from ftw_agents.collect import Collector
from ftw_agents.config import FTWConfig, GRPOConfig
from ftw_agents.lm.learner import Learner
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.lm.words import ASSISTANT, END
from ftw_agents.scripted.random import RandomAgent
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import Start, evaluation_starts, training_starts
from ftw_agents.train import Trainer
from ftw_envs.bandit.machines import MachinesEnv
from ftw_envs.episode import Episode
from ftw_envs.registry import TABLE, make
from ftw_envs.sokoban.views import View

ids = pytest.mark.parametrize("env_id", [row.id for row in TABLE])
PICTURE = {"tile_size": 4}


def view_of(env_id: str) -> dict[str, Any]:
    return PICTURE if "Visual" in env_id else {}


def llama(tokenizer: PreTrainedTokenizerFast, layers: int, width: int) -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        initializer_range=0.1,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LanguageModel(LlamaForCausalLM(config).eval(), tokenizer)


@pytest.fixture(scope="module")
def fresh(tokenizer: PreTrainedTokenizerFast) -> LanguageModel:
    """An untrained model of a few thousand numbers, which says anything."""
    return llama(tokenizer, 1, 16)


# Rows 7, 13, 14, 15, 21: tokens.


class Spy(LMAgent):
    """Notes what was sampled in each episode, and how many tokens the model read."""

    def __init__(self, lm: LanguageModel, **kw: Any) -> None:
        super().__init__(lm, **kw)
        self.sampled: dict[History, list[int]] = {}
        self.read = 0

    def _sample(self, logits: torch.Tensor, histories: list[History]) -> Any:
        tokens, logprobs = super()._sample(logits, histories)
        for history, token in zip(histories, tokens, strict=True):
            self.sampled.setdefault(history, []).append(token)
        return tokens, logprobs

    def _read(self, cohort: Any, feed: list[list[int]], rows: list[int]) -> torch.Tensor:
        self.read += sum(map(len, feed))
        return super()._read(cohort, feed, rows)


@pytest.mark.parametrize("mimic", [False, True])
def test_sampled_tokens_are_the_ones_trained(
    fresh: LanguageModel, monkeypatch: pytest.MonkeyPatch, mimic: bool
) -> None:
    """Rows 7, 13, 14: just those, though text and ids differ and observations look like replies."""
    if mimic:
        monkeypatch.setattr(View, "later", lambda *a: f"{ASSISTANT}up{END}")
    spy = Spy(fresh, max_reply_tokens=5)
    collector = Collector(MINI, {**COORDS, "max_steps": 4})
    episodes = list(collector.play(spy, training_starts(collector.env, 0, 1, 30)))
    drift = 0
    for episode, sampled in zip(episodes, spy.sampled.values(), strict=True):
        tokens = episode.tokens
        assert [t for t, a in zip(tokens.ids, tokens.action, strict=True) if a] == sampled
        assert len(tokens.ids) == len(tokens.action)
        assert len(tokens.logprobs) == sum(tokens.action) == episode.tokens_out
        text = fresh.tokenizer.decode(sampled)
        drift += fresh.tokenizer(text, add_special_tokens=False)["input_ids"] != sampled
        marks = sum(t == fresh.tokenizer.convert_tokens_to_ids("up") for t in tokens.ids)
        assert not mimic or marks >= 3  # the observations' words are in the prompts
    assert drift >= 5
    again = Learner(fresh, lr=1e-3).logprobs([e.tokens for e in episodes])
    for episode, logprobs in zip(episodes, again, strict=True):
        assert episode.tokens.logprobs == pytest.approx(logprobs, abs=1e-4)


def test_words_of_given_observations_are_not_trained(fresh: LanguageModel) -> None:
    """Row 7: in expert games too the mask is by who said it."""
    collector = Collector(MINI, COORDS)
    episode = next(collector.play(SolverAgent(), training_starts(collector.env, 0, 1, 1)))
    like = replace(episode.turns[1], observation=f"{ASSISTANT}up{END}")
    other = replace(episode, turns=(episode.turns[0], like, *episode.turns[2:]))
    plain, mimic = fresh.tokenize(episode), fresh.tokenize(other)
    assert plain.ids != mimic.ids
    for tokens in (plain, mimic):
        said = [i for i, a in zip(tokens.ids, tokens.action, strict=True) if a]
        words = [f"{t.reply}{END}" for t in episode.turns]
        assert said == fresh.tokenizer("".join(words), add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", ["lm", "gpt2"])
def test_log_probabilities_do_not_depend_on_the_batch(
    request: pytest.FixtureRequest, name: str
) -> None:
    """Rows 12, 15: Llama and GPT-2, in waves of any size."""
    lm = request.getfixturevalue(name)
    played = []
    for batch in (1, 4, 7):
        collector = Collector(MINI, {**COORDS, "max_steps": 7}, batch=batch)
        starts = training_starts(collector.env, 3, 1, 7)
        played.append(list(collector.play(LMAgent(lm), starts)))
    assert len({len(e.tokens.ids) for e in played[0]}) > 2  # ragged
    for together in played[1:]:
        for a, b in zip(played[0], together, strict=True):
            assert a.tokens.ids == b.tokens.ids
            assert a.tokens.logprobs == pytest.approx(b.tokens.logprobs, abs=1e-5)


@pytest.mark.parametrize("batch", [1, 8])
def test_every_token_is_read_once(fresh: LanguageModel, batch: int) -> None:
    """Row 21: with the cache kept over turns, only an episode's last token is never read.

    What episodes of a batch have in common may be read once for all.
    """
    spy = Spy(fresh, max_reply_tokens=3)
    collector = Collector(MINI, {**COORDS, "max_steps": 6}, batch=batch)
    episodes = list(collector.play(spy, training_starts(collector.env, 0, 1, 8)))
    needed = sum(len(e.tokens.ids) - 1 for e in episodes)
    assert 0 < spy.read <= needed
    assert batch > 1 or spy.read == needed


def test_pictures_are_refused(fresh: LanguageModel) -> None:
    """Row 19: not turned into text without a word."""
    collector = Collector("ftw/SokobanMiniVisual-v0", PICTURE)
    with pytest.raises(ValueError, match="reads text only"):
        next(collector.play(LMAgent(fresh), training_starts(collector.env, 0, 1, 2)))


# Rows 10, 18, 20, 22: environments.


@ids
def test_evaluation_in_pieces_is_that_of_each_alone(env_id: str) -> None:
    """Rows 10, 20: 7 episodes, 3 at a time; environments that are used again tell nothing."""
    kwargs = view_of(env_id)
    collector = Collector(env_id, kwargs, batch=3)
    starts = evaluation_starts(collector.env, "valid", 7, seed=0)
    together = list(collector.play(RandomAgent(), starts))
    assert list(collector.play(RandomAgent(), starts)) == together  # after what was played before
    alone = [next(Collector(env_id, kwargs, batch=1).play(RandomAgent(), [s])) for s in starts]
    assert together == alone
    for episode in together:
        assert sum(t.reward for t in episode.turns) == episode.score
        assert episode.env_version == make(env_id, **kwargs).env_version


class Mute:
    """Says nothing that is of use."""

    def act(self, histories: list[History]) -> list[Any]:
        return [replace(r, text="") for r in RandomAgent().act(histories)]


@ids
def test_solved_scores_most(env_id: str) -> None:
    """Row 18: without noise, more than any failure, however short, long or unusable."""
    kwargs = view_of(env_id)
    if isinstance(make(env_id, **kwargs), MachinesEnv):
        kwargs = {"sigma": 0.0, "good_sigma": 0.0}
    collector = Collector(env_id, kwargs)
    starts = evaluation_starts(collector.env, "valid", 8, seed=0)
    best = list(collector.play(SolverAgent(), starts))
    assert all(e.solved for e in best)
    failures = 0
    for attempt in range(4):
        agent = RandomAgent() if attempt else Mute()
        again = [replace(s, attempt=attempt) for s in starts]
        for good, other in zip(best, collector.play(agent, again), strict=True):
            failures += not other.solved
            assert other.score < good.score if not other.solved else other.score <= good.score
            if "Sokoban" in env_id:
                assert other.score == float(other.solved)
    assert failures >= 8


@ids
def test_all_answers_at_once_are_none(env_id: str) -> None:
    """Row 18: naming every action is no answer, in whatever dress."""
    env = make(env_id, **view_of(env_id))
    env.reset(seed=1)
    a, b, *_ = env.grammar.actions
    for dress in ("{}", "<answer>{}</answer>", "\\boxed{{{}}}", "Action: {}", "[{}]"):
        for both in (f"{a} or {b}", f"{a}, {b}", f"{a} {b}", f"{a}/{b}", f"{a}|{b}"):
            assert env.grammar.parse(dress.format(both)).action is None
        twice = "\n".join((dress.format(a), dress.format(b)))
        assert env.grammar.parse(twice).action is None
        assert env.grammar.parse(dress.format(a)).action == a


def test_what_is_learned_from_is_the_score_not_the_reward() -> None:
    """Row 22: shaped rewards are for others; scores are what they were."""
    played: list[list[Episode]] = []
    for kwargs in (COORDS, {**COORDS, "reward": "shaped"}):
        collector = Collector(MINI, kwargs)
        starts = [Start("train", i, i) for i in range(12)]
        agents = (RandomAgent(), SolverAgent())
        played.append([e for a in agents for e in collector.play(a, starts)])
    plain, shaped = played
    assert scores_of(plain).tolist() == scores_of(shaped).tolist()
    assert [e.solved for e in plain] == [e.solved for e in shaped]
    assert any(t.reward for e in shaped for t in e.turns[:-1])
    assert not any(t.reward for e in plain for t in e.turns[:-1])


# Row 6: the loop where there is nothing to learn.


@pytest.mark.parametrize("algo", ["ftw", "raft", "grpo", "reinforce++"])
def test_nothing_to_learn_changes_nothing(fresh: LanguageModel, folder: Path, algo: str) -> None:
    """Row 6: where all scores are equal no step is taken, and the figures are numbers."""
    lm = LanguageModel(copy.deepcopy(fresh.model), fresh.tokenizer)
    config = small(
        folder,
        algo=algo,
        env_args=("obs=coords", "max_steps=1"),
        iterations=2,
        grpo=GRPOConfig(group=4),
        ftw=FTWConfig(batch_episodes=24),
    )
    Trainer.start(config, lm).run()
    assert [m["solve_rate"] for m in comparable(folder)[1:]] == [0, 0]
    assert all("nll" not in m for m in comparable(folder))
    for name, value in weights(folder).items():
        assert torch.equal(value, fresh.model.state_dict()[name])

"""The language model: what is sampled is what is trained, wherever it stands in a batch."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from conftest import COORDS, MINI, TRAP
from transformers import AutoModelForCausalLM, AutoTokenizer

from ftw_agents.agent import History, Reply
from ftw_agents.collect import Collector
from ftw_agents.lm.base import BASES, all_of, pretrain
from ftw_agents.lm.learner import Learner, LossConfig, Sample, StepStats, micro_batches
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_agents.lm.words import build_tokenizer, split_words
from ftw_agents.scripted.players import SCRIPTED
from ftw_agents.scripted.solver import SolverAgent
from ftw_agents.starts import evaluation_starts, training_starts
from ftw_envs.episode import Episode, Tokens
from ftw_envs.registry import make
from ftw_envs.streams import Stream


def play(
    lm: LanguageModel, n: int = 24, batch: int = 24, env=(MINI, COORDS), **kw
) -> list[Episode]:
    collector = Collector(*env, batch=batch)
    return list(collector.play(LMAgent(lm, **kw), training_starts(collector.env, 0, 1, n)))


@pytest.fixture(params=["llama", "gpt2"])
def any_lm(request: pytest.FixtureRequest) -> LanguageModel:
    return request.getfixturevalue("lm" if request.param == "llama" else "gpt2")


def test_tokenizer_splits_as_it_says(tokenizer) -> None:
    for text in ("box r3c4 player r10c2", "#@$\n.-*", "You have 15 moves.", "<answer>up</answer>"):
        pieces = [w for w, _ in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)]
        assert pieces == split_words(text)


def test_vocabulary_is_closed_and_covers_every_text(tokenizer) -> None:
    for env_id, views in ((MINI, ({"obs": "text"}, COORDS)), (TRAP, ({},))):
        for view in views:
            env = make(env_id, **view)
            for index in range(200):
                for split in ("train", "test"):
                    text, _ = env.reset(seed=index, options={"split": split, "index": index})
                    ids = tokenizer(text + " " + env.step("")[0])["input_ids"]
                    assert tokenizer.unk_token_id not in ids
    assert tokenizer("xylophone")["input_ids"] == [tokenizer.unk_token_id]


def test_tokenizer_is_reproducible() -> None:
    a, b = build_tokenizer(["b a", "c"]), build_tokenizer(["c", "a b"])
    assert a.get_vocab() == b.get_vocab()


@pytest.mark.parametrize("env", [(MINI, COORDS), (MINI, {}), (TRAP, {})])
def test_collector_and_learner_agree(any_lm: LanguageModel, env: tuple) -> None:
    """Log-probabilities at sampling time equal the learner's, to 1e-4."""
    episodes = play(any_lm, env=env, max_reply_tokens=4)
    if env == (MINI, COORDS):
        assert len({len(e.tokens.ids) for e in episodes}) > 3  # ragged, or it shows little
    again = Learner(any_lm, lr=1e-3).logprobs([e.tokens for e in episodes])
    for episode, logprobs in zip(episodes, again, strict=True):
        assert episode.tokens.logprobs == pytest.approx(logprobs, abs=1e-4)


def test_episodes_do_not_depend_on_the_batch(any_lm: LanguageModel) -> None:
    together, alone = play(any_lm, 12, batch=12), play(any_lm, 12, batch=1)
    assert [e.tokens.ids for e in together] == [e.tokens.ids for e in alone]
    assert [replace(e, tokens=None) for e in together] == [replace(e, tokens=None) for e in alone]


def test_greedy_equals_the_models_own_generate(lm: LanguageModel) -> None:
    """Token for token, with the cache kept over turns and without."""
    for episode in play(lm, 6, temperature=0, max_reply_tokens=3):
        ids, action = episode.tokens.ids, episode.tokens.action
        t = 0
        while t < len(ids):
            if not action[t]:
                t += 1
                continue
            end = t
            while end < len(ids) and action[end]:
                end += 1
            out = lm.model.generate(
                torch.tensor([ids[:t]]),
                attention_mask=torch.ones((1, t), dtype=torch.long),
                do_sample=False,
                max_new_tokens=end - t,
                pad_token_id=lm.tokenizer.pad_token_id,
            )
            assert out[0].tolist() == list(ids[:end])
            t = end


def test_expert_games_are_tokenised_as_if_sampled(lm: LanguageModel) -> None:
    """The same text gives the same tokens whether it was played by the model or a script."""

    class Parrot:
        """Says what the solver says, through the model's own token bookkeeping."""

        def __init__(self) -> None:
            self.solver = SolverAgent()

        def act(self, histories: list[History]) -> list[Reply]:
            replies = []
            for h, r in zip(histories, self.solver.act(histories), strict=True):
                last = h.replies[-1].ids if h.replies else ()
                ids = (lm.tokenizer.convert_tokens_to_ids(r.text), lm.eos)
                replies.append(Reply(r.text, lm.chunk(h.observations, last), ids, (0.0, 0.0)))
            return replies

    collector = Collector(MINI, COORDS)
    starts = evaluation_starts(collector.env, "valid", 20, seed=0)
    for episode in collector.play(Parrot(), starts):
        assert lm.tokenize(episode) == episode.tokens


def test_chat_is_the_templates_own(lm: LanguageModel) -> None:
    """The growing sequence equals the template applied to the whole conversation."""
    collector = Collector(MINI, COORDS)
    starts = evaluation_starts(collector.env, "valid", 3, seed=0)
    for episode in collector.play(SolverAgent(), starts):
        messages = []
        for turn in episode.turns:
            messages.append({"role": "user", "content": turn.observation})
            messages.append({"role": "assistant", "content": turn.reply})
        whole = lm.tokenizer.apply_chat_template(messages, tokenize=False)
        ids = lm.tokenizer(whole, add_special_tokens=False)["input_ids"]
        assert tuple(ids) == lm.tokenize(episode).ids


def test_the_first_observation_is_in_the_first_prompt(lm: LanguageModel) -> None:
    episode = play(lm, 1)[0]
    start = lm.tokenizer(episode.turns[0].observation, add_special_tokens=False)["input_ids"]
    assert list(episode.tokens.ids[1 : 1 + len(start)]) == start


def test_action_mask_covers_replies_only(lm: LanguageModel) -> None:
    for episode in play(lm, 8):
        replies, current = [], []
        tokens = episode.tokens
        for i, (token, a) in enumerate(zip(tokens.ids, tokens.action, strict=True)):
            if a:
                current.append(token)
            if current and (i + 1 == len(tokens.ids) or not tokens.action[i + 1]):
                replies.append(lm.reply_text(tuple(current)))
                current = []
        assert replies == [t.reply for t in episode.turns]


def test_sampling_follows_the_models_distribution(lm: LanguageModel) -> None:
    collector = Collector(MINI, COORDS)
    start = training_starts(collector.env, 0, 1, 1)[0]
    env = collector.env
    observation, _ = env.reset(seed=0, options={"split": "train", "index": start.index})
    n = 3000
    agent = LMAgent(lm, max_reply_tokens=1)
    histories = [History([observation], Stream("dice", i), env) for i in range(n)]
    first = torch.tensor([r.ids[0] for r in agent.act(histories)])
    ids = torch.tensor([lm.first_chunk(observation)])
    with torch.no_grad():
        p = torch.softmax(lm.model(ids).logits[0, -1], dim=-1)
    counts = torch.bincount(first, minlength=len(p))
    assert ((counts / n - p).abs() <= 5 * (p * (1 - p) / n).sqrt() + 2 / n).all()


def _grads(lm: LanguageModel) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in lm.model.parameters() if p.grad is not None])


def _loss_gradient(lm: LanguageModel, items: list[Sample], **kw) -> tuple[float, torch.Tensor]:
    learner = Learner(lm, lr=1e-30, max_grad_norm=1e9, **kw)  # the step moves nothing
    stats = StepStats()
    learner.step(items, 100.0, stats)
    return stats.nll, _grads(lm).clone()


def test_masked_tokens_change_neither_loss_nor_gradient(lm: LanguageModel) -> None:
    """Targets that are masked out may be anything: only context may change the loss.

    So the last tokens of an episode, which nothing sampled comes after, may be anything.
    """
    episode = play(lm, 1)[0]
    item = Sample(episode.tokens, 1.0)
    junk = replace(
        episode.tokens,
        ids=(*episode.tokens.ids, *range(10, 40)),
        action=(*episode.tokens.action, *[0] * 30),
    )
    other = replace(junk, ids=(*episode.tokens.ids, *range(60, 90)))
    want = _loss_gradient(lm, [item])
    for changed in (junk, other):
        nll, grad = _loss_gradient(lm, [Sample(changed, 1.0)])
        assert nll == pytest.approx(want[0], rel=1e-5)
        assert torch.allclose(grad, want[1], atol=1e-6)


def test_the_loss_is_of_action_tokens_only(lm: LanguageModel) -> None:
    """Equal to the plain cross entropy of the whole model, masked by hand."""
    episodes = play(lm, 4)
    nll, grad = _loss_gradient(lm, [Sample(e.tokens, 2.0) for e in episodes])
    lm.model.zero_grad()
    want = torch.zeros(())
    for e in episodes:
        ids = torch.tensor([e.tokens.ids])
        logp = torch.log_softmax(lm.model(ids).logits[0, :-1], dim=-1)
        per_token = -logp.gather(1, ids[0, 1:, None])[:, 0]
        want = want + 2.0 * (per_token * torch.tensor(e.tokens.action[1:])).sum()
    (want / 100.0).backward()
    assert nll == pytest.approx(want.item(), rel=1e-5)
    assert torch.allclose(grad, _grads(lm), atol=1e-5)


def test_gradient_does_not_depend_on_micro_batches(gpt2: LanguageModel) -> None:
    """In float64, which Llama's norms would leave for float32 on the way."""
    gpt2.model.double()
    items = [Sample(e.tokens, 1.0 + i % 3) for i, e in enumerate(play(gpt2, 16))]
    _, want = _loss_gradient(gpt2, items, micro_tokens=10**9)
    for micro in (1, 500, 2000):
        _, grad = _loss_gradient(gpt2, items, micro_tokens=micro)
        assert torch.allclose(grad, want, rtol=0, atol=1e-10)


def test_repeats_weigh_like_repeats(lm: LanguageModel) -> None:
    a, b = (Sample(e.tokens, 1.0) for e in play(lm, 2))
    _, want = _loss_gradient(lm, [a, a, a, b])
    _, grad = _loss_gradient(lm, [replace(a, weight=3.0), b])
    assert torch.allclose(grad, want, atol=1e-6)


def test_micro_batches_keep_everything(lm: LanguageModel) -> None:
    items = [Sample(e.tokens, 1.0) for e in play(lm, 16)]
    groups = list(micro_batches(items, 600))
    assert sorted(id(x) for g in groups for x in g) == sorted(map(id, items))
    assert all(len(g) == 1 or max(len(x.tokens.ids) for x in g) * len(g) <= 600 for g in groups)
    assert len(groups) > 3


def test_kl_term(lm: LanguageModel) -> None:
    """Zero at the anchor, then positive, and it pulls back towards it."""
    items = [Sample(e.tokens, 1.0) for e in play(lm, 8)]
    norm = float(sum(sum(x.tokens.action) for x in items))
    moved = []
    for weight in (1e-6, 30.0):
        model = LanguageModel(copy.deepcopy(lm.model), lm.tokenizer)
        learner = Learner(model, lr=3e-3, loss=LossConfig(kl=weight))
        learner.anchor()
        first = StepStats()
        learner.step(items, norm, first)
        assert first.kl == pytest.approx(0, abs=1e-4)
        for _ in range(9):
            learner.step(items, norm, stats := StepStats())
        moved.append(stats.means()["kl"])
    assert moved[0] > 5 * moved[1] > 0


def test_a_fully_masked_batch_is_harmless(lm: LanguageModel) -> None:
    tokens = play(lm, 1)[0].tokens
    silent = replace(tokens, action=(0,) * len(tokens.ids), logprobs=())
    before = [p.clone() for p in lm.model.parameters()]
    stats = StepStats()
    Learner(lm, lr=1e-3).step([Sample(silent, 1.0)], 1.0, stats)
    assert stats.nll == 0
    assert all(torch.equal(a, b) for a, b in zip(before, lm.model.parameters(), strict=True))


def test_a_gradient_that_is_not_finite_is_skipped(lm: LanguageModel) -> None:
    item = Sample(play(lm, 1)[0].tokens, float("inf"))
    before = [p.clone() for p in lm.model.parameters()]
    stats = StepStats()
    Learner(lm, lr=1e-3).step([item], 1.0, stats)
    assert (stats.steps, stats.skipped) == (0, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, lm.model.parameters(), strict=True))


def test_saved_models_load_in_plain_transformers(lm: LanguageModel, tmp_path) -> None:
    lm.save(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    ids = tokenizer("box r3c4", return_tensors="pt")["input_ids"]
    assert torch.equal(model(ids).logits, lm.model(ids).logits)
    assert tokenizer.chat_template == lm.tokenizer.chat_template
    assert tokenizer.eos_token == lm.tokenizer.eos_token


def test_a_missing_model_is_named(tmp_path) -> None:
    with pytest.raises(ValueError, match="not a model"):
        LanguageModel.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("kw", "why"),
    [({"temperature": -1}, "temperature must be"), ({"max_reply_tokens": 0}, "at least 1")],
)
def test_bad_sampling_settings_are_refused(lm: LanguageModel, kw: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        LMAgent(lm, **kw)


def test_a_history_must_be_shown_from_its_start(lm: LanguageModel) -> None:
    env = make(MINI, **COORDS)
    text, _ = env.reset(seed=0)
    history = History([text, text], Stream("x"), env, [Reply("up")])
    with pytest.raises(ValueError, match="from its first turn"):
        LMAgent(lm).act([history])


def test_the_incident_base_can_say_every_command_of_the_expert() -> None:
    """Its words cover the expert's commands on unseen instances, and are read back as meant."""
    config = replace(BASES["ftw/IncidentL0-v0"], games=30, steps=3, listen=2, hidden=16)
    lm = pretrain(config, lambda step, steps, loss: None)
    collector, env = Collector(config.env, {}), make(config.env)
    env.reset(seed=0)  # all instances of this level have the same handles
    starts = evaluation_starts(env, "test_names", 20, 0)
    for episode in collector.play(SCRIPTED["expert"](), starts):
        for turn in episode.turns:
            ids = lm.tokenizer(turn.reply, add_special_tokens=False)["input_ids"]
            assert lm.tokenizer.unk_token_id not in ids
            assert len(ids) < config.max_reply_tokens
            assert env.grammar.parse(lm.tokenizer.decode(ids)).action == turn.action


def test_listening_learns_all_tokens_but_the_first() -> None:
    tokens = Tokens((5, 6, 7, 8), (0, 0, 1, 1), (-0.5, -0.25))
    assert all_of(tokens) == Tokens((5, 6, 7, 8), (0, 1, 1, 1), (0.0, 0.0, 0.0))

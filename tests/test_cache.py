"""The cache that grows and shrinks in place says what transformers' own one says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DynamicCache

from ftw_agents.agent import History
from ftw_agents.lm.cache import RoomyCache
from ftw_agents.lm.model import LanguageModel
from ftw_agents.lm.sampler import LMAgent
from ftw_envs.registry import make
from ftw_envs.streams import Stream

LAYERS = 2


def read(cache: DynamicCache | RoomyCache, rows: int, new: int, seed: int) -> list[torch.Tensor]:
    """Adds `new` tokens to every row and layer; what attention sees then."""
    generator = torch.Generator().manual_seed(seed)
    seen = []
    for layer in range(LAYERS):
        k, v = torch.randn((2, rows, 3, new, 4), generator=generator)
        seen += [x.clone() for x in cache.update(k, v, layer)]
    return seen


@given(
    steps=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2**6 - 1)), min_size=1, max_size=8)
)
@settings(deadline=None, max_examples=60)
def test_same_keys_and_values_as_the_dynamic_cache(steps: list[tuple[int, int]]) -> None:
    """Tokens are read, rows leave, again and again; rows may stand in another order."""
    ours, theirs = RoomyCache(), DynamicCache()
    names = list(range(6))
    for seed, (new, leaving) in enumerate(steps):
        for a, b in zip(
            read(ours, len(names), new, seed), read(theirs, len(names), new, seed), strict=True
        ):
            assert torch.equal(a, b)
        assert ours.get_seq_length() == theirs.get_seq_length()
        stay = [i for i, name in enumerate(names) if not leaving >> name & 1] or [0]
        if len(stay) < len(names):
            order = ours.keep(stay)
            assert sorted(order) == stay
            theirs.batch_select_indices(torch.tensor(order))
            names = [names[i] for i in order]


def test_one_row_spreads_to_many() -> None:
    ours, theirs = RoomyCache(), DynamicCache()
    read(ours, 1, 4, 0)
    read(theirs, 1, 4, 0)
    ours.spread(5)
    theirs.batch_repeat_interleave(5)
    for seed in (1, 2):
        for a, b in zip(read(ours, 5, 2, seed), read(theirs, 5, 2, seed), strict=True):
            assert torch.equal(a, b)


def test_few_rows_are_moved() -> None:
    cache = RoomyCache()
    read(cache, 6, 2, 0)
    assert cache.keep([0, 2, 4, 5]) == [0, 4, 2, 5]


@pytest.mark.parametrize("common", [True, False])
def test_prompts_that_begin_alike_are_read_alike(lm: LanguageModel, common: bool) -> None:
    """A reply does not depend on how much of a prompt the neighbours share."""
    env = make("ftw/SokobanMini-v0", obs="coords")
    texts = [env.reset(seed=0, options={"split": "train", "index": i})[0] for i in range(4)]
    others = [t if common else f"{i} {i} {t}" for i, t in enumerate(texts)]

    def reply(observations: list[str]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        agent = LMAgent(lm, temperature=0)
        stream = Stream("cache")
        first = agent.act([History([o], stream, env) for o in observations])[0]
        return first.ids, first.logprobs

    alone, together = reply([texts[0]]), reply([texts[0], *others[1:]])
    assert together[0] == alone[0]
    assert together[1] == pytest.approx(alone[1], abs=1e-4)
    assert reply([texts[0]] * 3)[0] == alone[0]  # all of the prompt is shared

"""jumanji: scan over vmap with autoreset, compiled, actions drawn beforehand."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jumanji.environments.routing.sokoban.env import Sokoban
from jumanji.environments.routing.sokoban.generator import DeepMindGenerator
from jumanji.wrappers import AutoResetWrapper
from measure import Row, dump, rates

GAMES, STEPS, BOARDS = 1024, 64, 1_000
WALL, TARGET, AGENT, BOX = 1, 2, 3, 4


class RandomBoards(DeepMindGenerator):
    """Draws from a table as the original does; the original downloads its table."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        fixed = np.full((BOARDS, 10, 10), WALL, np.uint8)
        fixed[:, 1:-1, 1:-1] = rng.random((BOARDS, 8, 8)) < 0.3
        variable = np.zeros_like(fixed)
        for walls, things in zip(fixed, variable, strict=True):
            cells = rng.permutation(np.flatnonzero(walls == 0))[:9]
            walls.flat[cells[:4]] = TARGET
            things.flat[cells[4:8]] = BOX
            things.flat[cells[8]] = AGENT
        self._fixed_grids, self._variable_grids = jnp.array(fixed), jnp.array(variable)


def main(seconds: float, repeats: int) -> None:
    env = AutoResetWrapper(Sokoban(generator=RandomBoards()))
    actions = jax.random.randint(jax.random.PRNGKey(0), (STEPS, GAMES), 0, 4)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(1), GAMES))

    def step(state, actions):  # type: ignore[no-untyped-def]
        state, timestep = jax.vmap(env.step)(state, actions)
        return state, (timestep.observation.grid, timestep.reward, timestep.step_type)

    run = jax.jit(lambda state, actions: jax.lax.scan(step, state, actions))

    def block() -> tuple[int, float]:
        nonlocal state
        state, out = run(state, actions)
        jax.block_until_ready(out)
        return STEPS * GAMES, 0.0

    print(dump([Row("batched 1024", "steps/s", rates(block, seconds, repeats))]))


main(float(sys.argv[1]), int(sys.argv[2]))

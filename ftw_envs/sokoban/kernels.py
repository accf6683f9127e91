"""Compiled pieces that the solver, the generator and the batched environment share.

Cells are renumbered 0..n-1 over the floor the player can ever reach; `nb[c, d]` is the
neighbour of cell `c` in direction `d` (up, down, left, right), -1 for a wall.

numba keeps compiled code beside the source and makes it anew when the file changes, but
not when a function it calls from another file does: after an edit here, touch the callers
(search.py, generate.py, batch.py).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

FAR = 30_000
"""A push distance that means "never"."""

jit: Any = numba.njit(cache=True, nogil=True)


@jit
def number_floor(cells, width):  # type: ignore[no-untyped-def]
    """Floor cells reachable without boxes: (cell of each number, neighbours, player's number).

    Shapes (n,), (n, 4); the flood starts at the player, numbers go by cell.
    """
    size = cells.size
    player = 0
    while not cells[player] & 8:
        player += 1
    step = (-width, width, -1, 1)
    number = np.full(size, -1, np.int16)
    stack = np.empty(size, np.int32)
    stack[0] = player
    number[player] = 0
    top = 1
    while top:
        top -= 1
        cell = stack[top]
        for d in range(4):
            to = cell + step[d]
            if number[to] < 0 and not cells[to] & 1:
                number[to] = 0
                stack[top] = to
                top += 1
    n = 0
    for cell in range(size):
        if number[cell] >= 0:
            number[cell] = n
            stack[n] = cell
            n += 1
    nb = np.full((n, 4), -1, np.int16)
    for c in range(n):
        for d in range(4):
            nb[c, d] = number[stack[c] + step[d]]
    return stack[:n].copy(), nb, number[player]


@jit
def push_distances(nb, goals):  # type: ignore[no-untyped-def]
    """Fewest pushes that bring a lone box from each cell to each goal, shape (k, n), int16."""
    n, k = nb.shape[0], goals.size
    dist = np.full((k, n), FAR, np.int16)
    queue = np.empty(n, np.int16)
    for g in range(k):
        queue[0] = goals[g]
        dist[g, goals[g]] = 0
        head, tail = 0, 1
        while head < tail:
            c = queue[head]
            head += 1
            for d in range(4):
                before = nb[c, d ^ 1]  # the box came from here, pushed from behind it
                if before >= 0 and nb[before, d ^ 1] >= 0 and dist[g, before] == FAR:
                    dist[g, before] = dist[g, c] + 1
                    queue[tail] = before
                    tail += 1
    return dist


@jit
def assignment(dist, boxes, work):  # type: ignore[no-untyped-def]
    """Least sum of push distances with a goal for each box, FAR if there is none.

    Hungarian algorithm with potentials, O(k^3). `work`: int32 of shape (5, k + 1).
    """
    k = boxes.size
    u, v, match, way, low = work[0], work[1], work[2], work[3], work[4]
    used = np.zeros(k + 1, np.uint8)
    for j in range(k + 1):
        u[j] = v[j] = match[j] = 0
    for i in range(1, k + 1):
        match[0] = i
        j0 = 0
        for j in range(k + 1):
            low[j] = 1 << 29
            used[j] = 0
        while True:
            used[j0] = 1
            i0 = match[j0]
            delta = np.int32(1 << 29)
            j1 = 0
            for j in range(1, k + 1):
                if not used[j]:
                    cost = np.int32(dist[j - 1, boxes[i0 - 1]]) - u[i0] - v[j]
                    if cost < low[j]:
                        low[j] = cost
                        way[j] = j0
                    if low[j] < delta:
                        delta = low[j]
                        j1 = j
            for j in range(k + 1):
                if used[j]:
                    u[match[j]] += delta
                    v[j] -= delta
                else:
                    low[j] -= delta
            j0 = j1
            if match[j0] == 0:
                break
        while j0:
            match[j0] = match[way[j0]]
            j0 = way[j0]
    return min(-v[0], np.int32(FAR))


@jit
def frozen(c, nb, occupied, live, goal):  # type: ignore[no-untyped-def]
    """Whether the box on `c` and boxes that hold it can never move, one of them off a goal.

    Boxes being looked at count as walls (`occupied` 2). Returns 0 if it can move, 1 if it
    is stuck with every stuck box on a goal, 2 if one of them is not.
    """
    occupied[c] = 2
    worst = 1 if goal[c] else 2
    for axis in (0, 2):
        a, b = nb[c, axis], nb[c, axis + 1]
        stuck = a < 0 or b < 0 or occupied[a] == 2 or occupied[b] == 2
        if not stuck and not live[a] and not live[b]:
            stuck = True
        for x in (a, b):
            if not stuck and occupied[x] == 1:
                held = frozen(x, nb, occupied, live, goal)
                if held:
                    stuck = True
                    worst = max(worst, held)
        if not stuck:
            occupied[c] = 1
            return 0
    occupied[c] = 1
    return worst


@jit
def flood(start, nb, occupied, seen, stamp, queue, walk):  # type: ignore[no-untyped-def]
    """Cells the player can walk to: `seen` == stamp, distance in `walk`. Returns the least cell."""
    queue[0] = start
    seen[start] = stamp
    walk[start] = 0
    least = start
    head, tail = 0, 1
    while head < tail:
        c = queue[head]
        head += 1
        for d in range(4):
            to = nb[c, d]
            if to >= 0 and seen[to] != stamp and not occupied[to]:
                seen[to] = stamp
                walk[to] = walk[c] + 1
                least = min(least, to)
                queue[tail] = to
                tail += 1
    return least


@jit
def spell(nb, boxes, player, path):  # type: ignore[no-untyped-def]
    """Every move of a solution found by `search`: direction, plus 4 if it pushes, uint8."""
    n = nb.shape[0]
    occupied, seen = np.zeros(n, np.uint8), np.zeros(n, np.int32)
    queue, walk = np.empty(n, np.int16), np.zeros(n, np.int16)
    for c in boxes:
        occupied[c] = 1
    moves = np.empty(64, np.uint8)
    length = 0
    for p in range(path.shape[0]):
        c, d = path[p, 0], path[p, 1]
        flood(player, nb, occupied, seen, p + 1, queue, walk)
        at = nb[c, d ^ 1]
        while length + walk[at] + 1 > moves.size:
            moves = np.concatenate((moves, moves))
        moves[length + walk[at]] = d + 4
        end = length + walk[at] + 1
        while walk[at]:
            for back in range(4):
                before = nb[at, back ^ 1]
                if before >= 0 and seen[before] == p + 1 and walk[before] == walk[at] - 1:
                    at = before
                    moves[length + walk[at]] = back
                    break
        length = end
        occupied[c] = 0
        occupied[nb[c, d]] = 1
        player = c
    return moves[:length]

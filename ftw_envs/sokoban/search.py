"""The search behind the solver: A* over box positions, compiled with numba.

An edge of the search is a walk followed by one push. It costs 1 (fewest pushes; positions
with the player in one region are one) or the number of moves (fewest moves; the player's
cell counts).

The estimate is the cheapest assignment of boxes to goals by push distance (Hungarian
algorithm), a lower bound that never falls by more than 1 a push, so what A* finds first
is optimal. Pushes onto cells from which no goal can be reached, and those that freeze a
box off a goal, are never made: both are lost for good.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ftw_envs.sokoban.kernels import FAR, assignment, flood, frozen, jit, push_distances

SOLVED, UNSOLVABLE, GAVE_UP = 0, 1, 2


class Memory(NamedTuple):
    """The nodes of a search, by number, and where to find them by position.

    Attributes:
        position: cells of the boxes, in order, then the player's, int16 of shape (cap, k + 1).
        hash: of the position, int64.
        cost: of the way to it, int32.
        estimate: what is left at least, FAR if it is lost, int16.
        parent: node it was reached from, -1 for the first, int32.
        push: cell of the box before the push that led here, and direction, int16 (cap, 2).
        dropped: whether a cheaper way to the position was found, uint8.
        later: next node of the same cost + estimate, -1 for none, int32.
        table: open addressing by hash, node or -1, int32 of shape (4 * cap,).
    """

    position: Any
    hash: Any
    cost: Any
    estimate: Any
    parent: Any
    push: Any
    dropped: Any
    later: Any
    table: Any


@jit
def _memory(cap, k):  # type: ignore[no-untyped-def]
    return Memory(
        np.empty((cap, k + 1), np.int16),
        np.empty(cap, np.int64),
        np.empty(cap, np.int32),
        np.empty(cap, np.int16),
        np.empty(cap, np.int32),
        np.empty((cap, 2), np.int16),
        np.empty(cap, np.uint8),
        np.empty(cap, np.int32),
        np.full(4 * cap, -1, np.int32),
    )


@jit
def _doubled(memory):  # type: ignore[no-untyped-def]
    cap, width = memory.position.shape
    new = _memory(2 * cap, width - 1)
    new.position[:cap] = memory.position
    new.hash[:cap] = memory.hash
    new.cost[:cap] = memory.cost
    new.estimate[:cap] = memory.estimate
    new.parent[:cap] = memory.parent
    new.push[:cap] = memory.push
    new.dropped[:cap] = memory.dropped
    new.later[:cap] = memory.later
    mask = new.table.size - 1
    for node in memory.table:  # dropped nodes are not in the table any more
        if node >= 0:
            at = new.hash[node] & mask
            while new.table[at] >= 0:
                at = (at + 1) & mask
            new.table[at] = node
    return new


@jit
def _slot(memory, position, key):  # type: ignore[no-untyped-def]
    """Where `position` is in the table, or the free place for it."""
    mask = memory.table.size - 1
    at = key & mask
    while memory.table[at] >= 0:
        node = memory.table[at]
        if memory.hash[node] == key:
            same = True
            for j in range(position.size):
                if memory.position[node, j] != position[j]:
                    same = False
                    break
            if same:
                return at
        at = (at + 1) & mask
    return at


@jit
def _zobrist(n):  # type: ignore[no-untyped-def]
    """`n` fixed, well mixed numbers, int64 (splitmix64)."""
    out = np.empty(n, np.int64)
    z = np.uint64(0x9E3779B97F4A7C15)
    for i in range(n):
        z += np.uint64(0x9E3779B97F4A7C15)
        x = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))
    return out


@jit
def _path(memory, node):  # type: ignore[no-untyped-def]
    """The pushes that led to `node`, first one first, int16 of shape (p, 2)."""
    length = 0
    x = node
    while memory.parent[x] >= 0:
        length += 1
        x = memory.parent[x]
    path = np.empty((length, 2), np.int16)
    while length:
        length -= 1
        path[length] = memory.push[node]
        node = memory.parent[node]
    return path


class Floor(NamedTuple):
    """A level in numbered cells, and scratch space.

    Attributes:
        nb: neighbours, int16 of shape (n, 4).
        distance: push distances, int16 of shape (k, n).
        goal, live: whether a cell is a goal, and whether one can be reached from it, uint8.
        occupied: boxes as they stand while a position is looked at, uint8.
        seen, walk, queue: for floods from the player; `walk` holds distances.
        seen2, walk2: for floods while those are in use.
        work: for `assignment`.
    """

    nb: Any
    distance: Any
    goal: Any
    live: Any
    occupied: Any
    seen: Any
    walk: Any
    queue: Any
    seen2: Any
    walk2: Any
    work: Any


@jit
def _floor(nb, goals):  # type: ignore[no-untyped-def]
    n, k = nb.shape[0], goals.size
    distance = push_distances(nb, goals)
    goal, live = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    for g in goals:
        goal[g] = 1
    for c in range(n):
        for g in range(k):
            if distance[g, c] < FAR:
                live[c] = 1
    return Floor(
        nb,
        distance,
        goal,
        live,
        np.zeros(n, np.uint8),
        np.zeros(n, np.int32),
        np.zeros(n, np.int16),
        np.empty(n, np.int16),
        np.zeros(n, np.int32),
        np.zeros(n, np.int16),
        np.empty((5, k + 1), np.int32),
    )


@jit
def _pushes(f, here, by_moves, stamp, out):  # type: ignore[no-untyped-def]
    """All pushes from a position that do not lose at once.

    Fills `out` with (box's place in the order, its cell, direction, cost, where the player
    is then); returns how many there are. Uses stamps from `stamp` on, at most 1 + 4 k.
    """
    k = here.size - 1
    for i in range(k):
        f.occupied[here[i]] = 1
    flood(here[k], f.nb, f.occupied, f.seen, stamp, f.queue, f.walk)
    count = 0
    for i in range(k):
        c = here[i]
        for d in range(4):
            behind, to = f.nb[c, d ^ 1], f.nb[c, d]
            if behind < 0 or to < 0 or f.seen[behind] != stamp:
                continue
            if f.occupied[to] or not f.live[to]:
                continue
            f.occupied[c], f.occupied[to] = 0, 1
            if frozen(to, f.nb, f.occupied, f.live, f.goal) != 2:
                out[count, 0], out[count, 1], out[count, 2] = i, c, d
                out[count, 3] = f.walk[behind] + 1 if by_moves else 1
                out[count, 4] = c
                if not by_moves:  # all cells of a region are one; the least stands for it
                    mark = stamp + 1 + count
                    out[count, 4] = flood(c, f.nb, f.occupied, f.seen2, mark, f.queue, f.walk2)
                count += 1
            f.occupied[c], f.occupied[to] = 1, 0
    for i in range(k):
        f.occupied[here[i]] = 0
    return count


@jit
def _shifted(position, i, to):  # type: ignore[no-untyped-def]
    """Moves box `i` of a position to cell `to`; boxes stay in order."""
    k = position.size - 1
    while i > 0 and position[i - 1] > to:
        position[i] = position[i - 1]
        i -= 1
    while i < k - 1 and position[i + 1] < to:
        position[i] = position[i + 1]
        i += 1
    position[i] = to


@jit
def _first_position(f, boxes, player, by_moves):  # type: ignore[no-untyped-def]
    """The position to start from, and its estimate: FAR if it is seen to be lost."""
    k = boxes.size
    position = np.empty(k + 1, np.int16)
    position[:k] = np.sort(boxes)
    position[k] = player
    for c in boxes:
        f.occupied[c] = 1
    if not by_moves:
        position[k] = flood(player, f.nb, f.occupied, f.seen2, 1, f.queue, f.walk2)
    lost = False
    for c in boxes:
        if not f.live[c] or frozen(c, f.nb, f.occupied, f.live, f.goal) == 2:
            lost = True
    f.occupied[:] = 0
    return position, np.int32(FAR) if lost else assignment(f.distance, position[:k], f.work)


@jit
def search(nb, goals, boxes, player, by_moves, weight, limit):  # type: ignore[no-untyped-def]
    """A* from (boxes, player), in numbered cells.

    A node is a position with what it has cost so far; a cheaper way to a position makes a
    new node and drops the old one.

    Args:
        by_moves: cost is moves instead of pushes.
        weight: factor on the estimate; 1 is optimal, more is faster.
        limit: nodes after which to give up.

    Returns:
        (SOLVED | UNSOLVABLE | GAVE_UP, pushes as int16 of shape (p, 2): cell of the box
        before the push and direction; nodes made).
    """
    n, k = nb.shape[0], boxes.size
    none = np.empty((0, 2), np.int16)
    f = _floor(nb, goals)
    position, h = _first_position(f, boxes, player, by_moves)
    if h >= FAR:
        return UNSOLVABLE, none, 0
    mix = _zobrist(2 * n)
    m = _memory(2048, k)
    key = mix[n + position[k]]
    for i in range(k):
        key ^= mix[position[i]]
    m.position[0], m.hash[0], m.cost[0], m.estimate[0] = position, key, 0, h
    m.parent[0], m.dropped[0], m.later[0] = -1, 0, -1
    m.table[_slot(m, position, key)] = 0
    out = np.empty((4 * k, 5), np.int32)
    nodes, stamp = 1, 2
    current = weight * h
    head = np.full(current + 64, -1, np.int32)  # first node of each cost + estimate
    head[current] = 0
    while True:
        while current < head.size and head[current] < 0:
            current += 1
        if current == head.size:
            return UNSOLVABLE, none, nodes
        node = head[current]
        head[current] = m.later[node]
        if m.dropped[node]:
            continue
        if m.estimate[node] == 0:  # a full assignment at no cost: every box on a goal
            return SOLVED, _path(m, node), nodes
        here = m.position[node].copy()
        count = _pushes(f, here, by_moves, stamp, out)
        stamp += 1 + 4 * k
        for p in range(count):
            i, c, d, cost, player = out[p]
            to = nb[c, d]
            position[:] = here
            _shifted(position, i, to)
            position[k] = player
            key = m.hash[node] ^ mix[c] ^ mix[to] ^ mix[n + here[k]] ^ mix[n + player]
            total = m.cost[node] + cost
            at = _slot(m, position, key)
            old = m.table[at]
            if old >= 0 and (m.estimate[old] >= FAR or m.cost[old] <= total):
                continue
            if nodes >= limit:
                return GAVE_UP, none, nodes
            if nodes == m.cost.size:
                m = _doubled(m)
                at = _slot(m, position, key)
            h = assignment(f.distance, position[:k], f.work)
            if old >= 0:
                m.dropped[old] = 1
            m.position[nodes], m.hash[nodes], m.cost[nodes] = position, key, total
            m.estimate[nodes], m.parent[nodes], m.dropped[nodes] = h, node, 0
            m.push[nodes, 0], m.push[nodes, 1] = c, d
            m.table[at] = nodes
            if h < FAR:
                place = total + weight * h
                while place >= head.size:
                    head = np.concatenate((head, np.full(head.size, -1, np.int32)))
                m.later[nodes] = head[place]
                head[place] = nodes
                current = min(current, place)
            nodes += 1

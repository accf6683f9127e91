"""Our speed beside that of others, on this machine: `python benchmarks/compare.py`.

Each peer gets a virtual environment of its own, made with pip the first time. What does not
install is told and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import Row, load

HERE = Path(__file__).parent

PEERS = {
    "jumanji": (["jumanji==1.1.2", "jax==0.10.2"],),
    "envpool": (["envpool==1.2.5"],),
    "gem": (["gem-llm==0.1.0"],),
    "textarena": (["textarena==0.7.4", "numpy>=2"],),
    # Needs the old gym, and that an old numpy.
    "gym_sokoban": (
        ["numpy==1.26.4", "imageio", "pillow", "requests", "tqdm", "cloudpickle", "gym-notices"],
        ["--no-deps", "gym==0.26.2", "gym-sokoban==0.0.6"],
    ),
    "reasoning_gym": (["reasoning-gym==0.1.25"],),
}
"""By name of the file in `peers/`: what each call of `pip install` gets."""


@dataclass(frozen=True)
class Line:
    """A line of the table.

    Attributes:
        ours: key of our row, and the statistic taken of it if not the usual one.
        peers: (name, key of its row).
    """

    what: str
    ours: tuple[str, str]
    peers: tuple[tuple[str, str], ...]


LINES = (
    Line(
        "batched, 1,024 games, grid, autoreset",
        ("batched 1024 NextStep", ""),
        (("jumanji", "batched 1024"), ("envpool", "batched 1024")),
    ),
    Line(
        "one game, text (only ours counts resets)",
        ("text, gym.make", ""),
        (("gem", "text"), ("textarena", "text")),
    ),
    Line("pictures of 160x160", ("rgb 160x160", ""), (("gym_sokoban", "rgb"),)),
    Line(
        "reset 10x10/4: our p99, its mean",
        ("reset ftw/SokobanHard-v0", "p99"),
        (("gym_sokoban", "reset"),),
    ),
    Line("new level 10x10/4, mean", ("new level hard", ""), (("reasoning_gym", "new level"),)),
)


def install(name: str, folder: Path) -> Path:
    """The Python of a peer's virtual environment, made if it is not there.

    Raises:
        subprocess.CalledProcessError: pip failed.
    """
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, pins = folder / "installed.json", json.dumps(PEERS[name])
    if stamp.exists() and stamp.read_text() == pins:
        return python
    print(f"{name}: installing into {folder}", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    for packages in PEERS[name]:
        run([python, "-m", "pip", "install", "--quiet", *packages])
    stamp.write_text(pins)
    return python


def run(command: list[str | Path], timeout: float | None = None) -> str:
    """What a command prints."""
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=env, timeout=timeout
    )
    return done.stdout


def reason(error: Exception) -> str:
    """The line that says most about why a command failed."""
    if not isinstance(error, subprocess.CalledProcessError) or not error.stderr.strip():
        return str(error)
    lines = error.stderr.strip().splitlines()
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])


def measure_peers(names: list[str], folder: Path, rate: list[str]) -> dict[str, list[Row]]:
    """Rows by peer; those that fail are told and left out."""
    found = {}
    for name in names:
        try:
            python = install(name, folder / name)
            # -P: the file's own folder is not on the path, so it does not hide its package.
            out = run([python, "-P", HERE / "peers" / f"{name}.py", *rate], timeout=1800)
            found[name] = load(out.splitlines()[-1])
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{name}: left out, {reason(error)}", flush=True)
            continue
        for row in found[name]:
            print(f"{name}: {row}", flush=True)
    return found


def table(ours: dict[str, Row], peers: dict[str, list[Row]]) -> list[str]:
    """The lines of the comparison; the ratio says how many times faster ours is."""
    lines = [f"{'':42}{'ours':>12} {'peer':>12}  {'':10}{'':14}{'ratio':>8}"]
    for line in LINES:
        key, statistic = line.ours
        own = ours[key].figure(statistic)
        for name, peer_key in line.peers:
            row = next((r for r in peers.get(name, []) if r.key == peer_key), None)
            if row is None:
                continue
            other = row.figure()
            ratio = other / own if row.unit == "ms" else own / other
            digits = 3 if row.unit == "ms" else 0
            lines.append(
                f"{line.what:42}{own:12,.{digits}f} {other:12,.{digits}f}  {row.unit:10}"
                f"{name:14}{ratio:8,.1f}"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--venvs", type=Path, default=Path(".bench-venvs"))
    parser.add_argument("--seconds", default="1.0", help="of a repeat of a rate")
    parser.add_argument("--repeats", default="5")
    parser.add_argument("--json", type=Path, help="write all figures here too")
    args = parser.parse_args()
    if unknown := set(args.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")

    own_file = args.venvs.resolve() / "ours.json"
    own_file.parent.mkdir(parents=True, exist_ok=True)
    rate = ["--seconds", args.seconds, "--repeats", args.repeats]
    print(run([sys.executable, HERE / "sokoban_speed.py", "--json", own_file, *rate]), flush=True)
    report = json.loads(own_file.read_text())
    ours = {row["key"]: Row(**row) for row in report["rows"]}
    names = args.peers or list(PEERS)
    peers = measure_peers(names, args.venvs.resolve(), [args.seconds, args.repeats])
    print("\n" + "\n".join(table(ours, peers)))
    if args.json:
        report["peers"] = {name: [asdict(row) for row in some] for name, some in peers.items()}
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

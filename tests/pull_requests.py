"""Pull requests to be checked: git repositories made object by object, without a checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

THERE = "leaderboards/entries/0.1.0/ppo-mini"
MINE = "leaderboards/entries/0.1.0/my-method"
GOOD = {
    f"{MINE}/entry.json": b"{}\n",
    f"{MINE}/env.lock.json": b"{}\n",
    f"{MINE}/runs/0/episodes.jsonl": b"{}\n",
    f"{MINE}/runs/0/curve.jsonl": b"{}\n",
}


class Repository:
    """A git repository without files: trees are built from blobs, with any mode and name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
        there = dict.fromkeys((f"{THERE}/entry.json", f"{THERE}/env.lock.json"), b"{}\n")
        self.base = self.commit({"README.md": b"read me\n", "run.py": b"print()\n", **there})

    def git(self, *args: str, stdin: bytes = b"") -> str:
        env = {**os.environ, "GIT_INDEX_FILE": str(self.path / "index")}
        for who in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@b.c"}
        done = subprocess.run(
            ["git", "-C", str(self.path), *args],
            input=stdin,
            capture_output=True,
            env=env,
            check=True,
        )
        return done.stdout.decode().strip()

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=data)

    def commit(
        self,
        files: Mapping[str | bytes, bytes | None],
        *parents: str,
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """A commit on the first parent's tree with files put in, or taken out where None."""
        self.git("read-tree", *(parents[:1] or ["--empty"]))
        for path, data in files.items():
            name = path if isinstance(path, bytes) else path.encode()
            mode = (modes or {}).get(path, "100644") if isinstance(path, str) else "100644"
            sha = "1" * 40 if mode == "160000" else self.blob(data or b"")
            line = f"{0 if data is None else mode} {sha}\t".encode() + name + b"\0"
            self.git("update-index", "-z", "--index-info", stdin=line)
        return self.commit_tree(self.git("write-tree"), *parents)

    def commit_tree(self, tree: str, *parents: str) -> str:
        flags = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", tree, *flags, "-m", "m")

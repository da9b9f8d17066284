"""Record a real session of zarrlift in a terminal as an animated SVG, for light and dark pages.

    python docs/recording/record.py            # writes docs/recording/recording.svg

Runs the commands of SESSION in a pseudo-terminal, in a temporary directory; what they print, and when, is
what the picture shows. A pause longer than PAUSE is shortened to it. Needs pyte, a terminal emulator (extra
`dev`), and a POSIX system.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np
import pyte
import zarr

COLUMNS, LINES = 94, 30
PAUSE, READ = 0.6, 2.5
"""Seconds that nothing may happen while a command runs, and seconds to read what it has printed."""
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
WIDTH, HEIGHT, MARGIN = 8.43, 19, 14
"""Of a character of 14 px, and the margin, in px."""
SESSION = (
    "zarrlift inspect survey.n5",
    "zarrlift migrate survey.n5 survey.zarr --codecs zstd:3 --shards auto --dry-run",
    "zarrlift migrate survey.n5 survey.zarr --codecs zstd:3 --shards auto",
    "zarrlift verify survey.n5 survey.zarr --full",
)
COLOURS = {"green": "good", "brown": "warning", "red": "bad"}
STYLE = """
svg { color-scheme: light dark; --page: #f6f8fa; --text: #1f2328; --good: #116329;
  --warning: #7d4e00; --bad: #a40e26; --prompt: #0550ae }
@media (prefers-color-scheme: dark) { svg { --page: #151b23; --text: #e6edf3; --good: #56d364;
  --warning: #e3b341; --bad: #ff7b72; --prompt: #79c0ff } }
text { font: 14px FONT; fill: var(--text); white-space: pre; visibility: hidden }
.good { fill: var(--good) } .warning { fill: var(--warning) } .bad { fill: var(--bad) }
.prompt { fill: var(--prompt) } .title { font-weight: 600 }
@media (prefers-reduced-motion: reduce) {
  text { animation: none !important } text.last { visibility: visible } }
"""


@dataclass
class Film:
    """What each line of the screen showed, and from when to when."""

    screen: pyte.Screen = field(default_factory=lambda: pyte.Screen(COLUMNS, LINES))
    now: float = 0.0
    shown: dict[tuple[int, str], list[list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stream = pyte.Stream(self.screen)
        self._lines: dict[int, str] = {}

    def feed(self, text: str) -> None:
        """Show what a program prints now."""
        self._stream.feed(text)
        for row in range(LINES):
            line = self._line(row)
            if self._lines.get(row, "") == line:
                continue
            if before := self._lines.get(row):
                self.shown[row, before][-1][1] = self.now
            self._lines[row] = line
            if line:
                self.shown.setdefault((row, line), []).append([self.now, float("inf")])

    def _line(self, row: int) -> str:
        """The line as SVG: one `tspan` for each style."""
        parts: list[list[str]] = []
        for column in range(COLUMNS):
            char = self.screen.buffer[row][column]
            kinds = [COLOURS.get(char.fg, "")] if char.fg != "default" else []
            kinds += ["title"] * char.bold + ["prompt"] * (char.fg == "blue")
            kind = " ".join(name for name in kinds if name)
            if not parts or parts[-1][0] != kind:
                parts.append([kind, ""])
            parts[-1][1] += char.data
        while parts and not parts[-1][1].rstrip():
            parts.pop()
        if parts:
            parts[-1][1] = parts[-1][1].rstrip()
        spans = (
            f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text) for kind, text in parts
        )
        return "".join(spans)

    def svg(self) -> str:
        """The picture: each line is there while it was on the screen, again and again."""
        end = self.now + READ
        texts, rules = [], []
        for number, ((row, line), times) in enumerate(self.shown.items()):
            steps = "".join(
                f"{100 * start / end:.2f}% {{ visibility: visible }} "
                + ("" if stop == float("inf") else f"{100 * stop / end:.2f}% {{ visibility: hidden }} ")
                for start, stop in times
            )
            rules.append(f"@keyframes l{number} {{ 0% {{ visibility: hidden }} {steps}}}")
            last = ' class="last"' if times[-1][1] == float("inf") else ""
            y = MARGIN + HEIGHT * (row + 0.8)
            style = f"animation: l{number} {end:.2f}s step-end infinite"
            texts.append(f'<text{last} x="{MARGIN}" y="{y:.1f}" style="{style}">{line}</text>')
        width, height = round(COLUMNS * WIDTH) + 2 * MARGIN, LINES * HEIGHT + 2 * MARGIN
        style = STYLE.replace("FONT", FONT) + "\n".join(rules)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="A session in a terminal: {"; ".join(SESSION)}">\n'
            f"<style>{style}</style>\n"
            f'<rect width="{width}" height="{height}" rx="8" fill="var(--page)"/>\n'
            + "\n".join(texts)
            + "\n</svg>\n"
        )


def run(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Run a command in a terminal; what it prints, each with the seconds since its start."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        words = command.split()
        size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color"}
        program = str(Path(sys.executable).parent / words[0])
        os.execve(program, words, {**os.environ, **size})  # noqa: S606 - this program, with words from above
    subprocess.run(
        ["stty", "cols", str(COLUMNS), "rows", str(LINES), "-F", os.ttyname(terminal)], check=False
    )
    start = time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        if not data:
            break
        yield time.monotonic() - start, data.decode()
    os.waitpid(pid, 0)


def write_survey(path: Path) -> None:
    """An N5 image of 0.5 GB in blocks of 0.5 MB, written by tensorstore."""
    import tensorstore

    metadata = {
        "dimensions": [768, 640, 512],
        "blockSize": [64, 64, 64],
        "dataType": "uint16",
        "compression": {"type": "gzip", "level": 1},
    }
    for name, bright in (("red", 900), ("green", 500)):
        spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(path / name)}, "metadata": metadata}
        array = tensorstore.open(spec, create=True).result()
        x, y, z = np.ogrid[:768, :640, :512]
        noise = np.random.default_rng(0).integers(0, 32, array.shape, dtype="u2")
        array[...] = (bright * (1 + np.sin(x / 40) * np.cos(y / 50) * np.sin(z / 30))).astype("u2") + noise


def main() -> None:
    """Write the picture."""
    film = Film()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_survey(folder / "survey.n5")
        for command in SESSION:
            film.feed("\x1b[34m$\x1b[0m ")
            for char in command:
                film.now += 0.03
                film.feed(char)
            film.now += 0.3
            film.feed("\r\n")
            start, before = film.now, 0.0
            for seconds, text in run(command, folder):
                start -= max(seconds - before - PAUSE, 0)
                film.now, before = start + seconds, seconds
                film.feed(text.replace(f"{folder}/", ""))
            film.now += READ
        array = zarr.open_array(folder / "survey.zarr" / "red", mode="r")
        assert array.shards is not None, "the picture shows what was done"
    target = Path(__file__).parent / "recording.svg"
    target.write_text(re.sub(r"\n\s*\n", "\n", film.svg()))
    print(f"{target}: {target.stat().st_size / 1e3:.0f} kB, {film.now:.0f} s")


if __name__ == "__main__":
    main()

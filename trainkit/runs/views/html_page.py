"""A run as a page of one file: no script, nothing from elsewhere, all texts escaped."""

from __future__ import annotations

import json
import os
from html import escape
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core.files.printable import printable, printable_line
from trainkit.runs.journaled_run import JournaledRun
from trainkit.runs.views.curves import Curve, CurvePair, Scale, binned, curves_of, scale_of
from trainkit.runs.views.overview import about_lines
from trainkit.runs.views.run_facts import ending_text, epoch_logs, run_facts
from trainkit.runs.views.text_cells import clipped, duration, number
from trainkit.runs.views.text_chart import title_values

_MOST_CHARTS = 24
_MOST_EPOCHS = 200
_MOST_NAMES = 12
_MOST_TEXT = 300
_BINS = 180

_WIDTH, _HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 8, 20

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1e21;--soft:#667;--line:#d8dbe0;--train:#1668b8;
--band:#1668b833;--val:#c2570c;--good:#1a7f37;--bad:#c22}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e6e8ea;--soft:#9aa1ab;--line:#363a41;
--train:#64b1f5;--band:#64b1f533;--val:#f5a04c;--good:#56c774;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1320px;padding:16px;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.35rem;margin:.2em 0}h2{font-size:1.05rem;margin:1.6em 0 .5em}
.soft{color:var(--soft)}.finished{color:var(--good)}.failed,.killed{color:var(--bad)}
.facts{display:grid;gap:10px 18px;margin:1em 0;
grid-template-columns:repeat(auto-fill,minmax(min(100%,150px),1fr))}
.facts div span{display:block;color:var(--soft);font-size:.85rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:18px}
figure{margin:0;min-width:0}figcaption{margin-bottom:2px}figcaption b{margin-right:.6em}
svg{display:block;width:100%;max-width:560px;height:auto}
svg text{font-size:11px;fill:var(--soft)}
.grid{stroke:var(--line)}.train{fill:none;stroke:var(--train);stroke-width:1.6;stroke-linejoin:round}
.band{fill:var(--band)}.val{fill:none;stroke:var(--val);stroke-width:1.6}.dot{fill:var(--val)}
.key i{display:inline-block;width:1em;height:3px;vertical-align:middle;margin:0 .3em 0 .8em}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:3px 12px 3px 0;
text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
ul{padding-left:1.2em}pre{white-space:pre-wrap}
"""


def write_page(run: JournaledRun, path: str | os.PathLike[str]) -> None:
    """Write a run as an HTML page of one file, whole or not at all."""
    text = page_of(run).encode()
    with AtomicFile(path) as file:
        with open(os.dup(file.fd), "wb") as out:
            out.write(text)
        file.commit()


def page_of(run: JournaledRun) -> str:
    """The text of the page."""
    facts, pairs = run_facts(run), curves_of(run)
    name = _text(os.path.basename(os.path.normpath(facts["folder"])) or facts["folder"])
    body = [
        f"<h1>{name}</h1>",
        f'<p class="{escape(facts["ending"])}">{_text(ending_text(facts))}'
        + (f": {_text(facts['error'])}" if facts["error"] else "")
        + "</p>",
        _facts_part(facts),
        _charts_part(pairs, max(run.last_step, 1)),
        _epochs_part(run),
        _details_part(run, facts),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _text(value: Any) -> str:
    """A text of somebody else, as a page may show it."""
    return escape(clipped(value, _MOST_TEXT))


# ------------------------------------------------------------------ parts of the page


def _facts_part(facts: dict[str, Any]) -> str:
    def progress(count: Any, planned: Any) -> str:
        return f"{count} of {planned}" if planned else f"{count}"

    waited = facts["waited"] / facts["seconds"] if facts["seconds"] else 0.0
    cells = [
        ("Steps", progress(facts["steps"], facts["steps_planned"])),
        ("Epochs", progress(facts["epochs"], facts["epochs_planned"])),
        ("Time", duration(facts["seconds"])),
        ("Waiting for data", f"{waited:.0%}"),
        ("Started", facts["started"].replace("T", " ")),
        ("Loss of the last step", number(facts["loss"])),
        ("Learning rate", number(facts["rate"])),
    ]
    for name, (value, epoch) in list(facts["best"].items())[:_MOST_NAMES]:
        cells.append((f"Best {name}", f"{number(value)}, epoch {epoch + 1}"))
    rows = [
        f"<div><span>{_text(name)}</span>{_text(value)}</div>" for name, value in cells if value
    ]
    return f'<div class="facts">{"".join(rows)}</div>'


def _charts_part(pairs: list[CurvePair], last_step: int) -> str:
    if not pairs:
        return "<p>No step was done.</p>"
    key = (
        '<p class="key soft"><i style="background:var(--train)"></i>training'
        '<i style="background:var(--val)"></i>validation</p>'
        if any(pair.validation is not None for pair in pairs)
        else ""
    )
    charts = "".join(_figure(pair, last_step) for pair in pairs[:_MOST_CHARTS])
    return f'<h2>Curves</h2>{key}<div class="charts">{charts}</div>'


def _epochs_part(run: JournaledRun) -> str:
    ends = epoch_logs(run)
    if not ends:
        return ""
    names = list(dict.fromkeys(name for _, _, logs in ends for name in logs))[:_MOST_NAMES]
    head = "".join(f"<th>{_text(name)}</th>" for name in ["epoch", *names])
    rows = "".join(
        f"<tr><td>{epoch + 1}</td>"
        + "".join(f"<td>{number(logs.get(name))}</td>" for name in names)
        + "</tr>"
        for _, epoch, logs in ends[-_MOST_EPOCHS:]
    )
    left_out = len(ends) - _MOST_EPOCHS
    note = f'<p class="soft">The last {_MOST_EPOCHS} of {len(ends)}.</p>' if left_out > 0 else ""
    return f'<h2>Epochs</h2>{note}<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def _details_part(run: JournaledRun, facts: dict[str, Any]) -> str:
    lines = [*about_lines(run)]
    if facts["parent"]:
        lines.append(f"a fork of {facts['parent'].get('folder')} at {facts['parent'].get('step')}")
    if facts["problems"]:
        lines.append(f"the journal: {facts['problems']}")
    lines.append(f"run {facts['id']}, from {facts['folder']}")
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    names = ("versions", "platform", "processor", "blas", "threads", "device", "seed")
    header = {name: run.header[name] for name in names if name in run.header}
    text = escape(printable(json.dumps(header, indent=1, ensure_ascii=False))[:20_000])
    return (
        f"<h2>About</h2><ul>{items}</ul>"
        f"<details><summary>Environment</summary><pre>{text}</pre></details>"
    )


# ------------------------------------------------------------------ charts


def _figure(pair: CurvePair, last_step: int) -> str:
    scale = scale_of([pair.training, pair.validation])
    values = _text(title_values(pair, scale))
    head = f"<figcaption><b>{_text(pair.name)}</b> <span class=soft>{values}</span></figcaption>"
    if scale is None:
        return f"<figure>{head}</figure>"
    label = escape(printable_line(f"{pair.name} over steps"), quote=True)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">',
        _axes(scale, last_step),
    ]
    if pair.training is not None:
        parts.append(_line(pair.training, scale, last_step, "train", with_band=True))
    if pair.validation is not None:
        parts.append(_line(pair.validation, scale, last_step, "val", with_band=False))
        parts.append(_dots(pair.validation, scale, last_step))
    return f"<figure>{head}{''.join(parts)}</svg></figure>"


def _axes(scale: Scale, last_step: int) -> str:
    parts: list[str] = []
    for share in (0.0, 0.5, 1.0):
        y = _height(np.array(share))
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        text = number(scale.value(share))
        parts.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    y = _HEIGHT - 5
    parts.append(f'<text x="{_LEFT}" y="{y}">1</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end">step {last_step}</text>')
    return "".join(parts)


def _height(share: Any) -> Any:
    return _TOP + (1 - share) * (_HEIGHT - _TOP - _BOTTOM)


def _across(step: Any, last_step: int) -> Any:
    share = (step - 1) / max(last_step - 1, 1)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _line(curve: Curve, scale: Scale, last_step: int, kind: str, with_band: bool) -> str:
    """The mean of each bin as a line, with a band from the smallest to the largest."""
    steps, values = curve.steps, curve.values
    if len(values) <= _BINS:
        low = mean = high = values
        middles = steps
    else:
        low, mean, high = binned(curve, 1, last_step, _BINS)
        middles = 1 + (np.arange(_BINS) + 0.5) / _BINS * (last_step - 1)
    x = _across(middles, last_step)
    finite_bins = np.flatnonzero(np.isfinite(mean))
    if not len(finite_bins):
        return ""
    y = [_height(np.clip(scale.share(part[finite_bins]), 0, 1)) for part in (low, mean, high)]
    x = x[finite_bins]
    line = f'<path class="{kind}" d="M{_points(x, y[1])}"/>'
    if not with_band or len(values) <= _BINS:
        return line
    outline = _points(np.concatenate([x, x[::-1]]), np.concatenate([y[2], y[0][::-1]]))
    return f'<path class="band" d="M{outline}Z"/>{line}'


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _dots(curve: Curve, scale: Scale, last_step: int) -> str:
    finite = np.isfinite(curve.values)
    x = _across(curve.steps[finite], last_step)
    y = _height(np.clip(scale.share(curve.values[finite]), 0, 1))
    if len(x) > _BINS // 3:
        return ""
    return "".join(
        f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="2.4"/>'
        for a, b in zip(x, y, strict=True)
    )

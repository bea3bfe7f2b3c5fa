"""The page to try a model in a browser: one text, without anything from elsewhere."""

from __future__ import annotations

import html
import json
from typing import Any

from trainkit.cli.serving.servable import Servable, described, specs_of

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a browser lets the page do, as `Content-Security-Policy`."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<style nonce="{nonce}">
body {{ font: 1rem/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }}
textarea, pre {{ width: 100%; box-sizing: border-box; font: .9rem monospace; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
td, th {{ text-align: left; padding-right: 1.5rem; }}
</style>
<h1>{name}</h1>
<table>
<tr><th>signature<th>takes<th>gives
{rows}
</table>
<p><label for="request">Request, as JSON</label>
<textarea id="request" rows="8">{example}</textarea>
<p><button id="send">Predict</button>
<pre id="answer" aria-live="polite"></pre>
<script nonce="{nonce}">
document.getElementById("send").addEventListener("click", async () => {{
  const answer = document.getElementById("answer");
  answer.textContent = "...";
  try {{
    const reply = await fetch({url}, {{
      method: "POST",
      headers: {{ "Content-Type": "application/json" }},
      body: document.getElementById("request").value,
    }});
    answer.textContent = reply.status + "\\n" + await reply.text();
  }} catch (error) {{
    answer.textContent = String(error);
  }}
}});
</script>
</html>
"""


def page_of(servable: Servable, url: str, nonce: str) -> str:
    """The page, every name in it escaped.

    Args:
        servable: the model.
        url: where predictions are asked for, a path of this server.
        nonce: a word that nobody foresees, which `POLICY` has, too.
    """
    rows = []
    for name, signature in servable.signatures.items():
        takes = [f"{label}: {described(spec)}" for label, spec in specs_of(signature).items()]
        gives = [f"{n}: {described(spec)}" for n, spec in signature.structured_outputs.items()]
        cells = (name, ", ".join(takes), ", ".join(gives))
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    # in a script "<" could end it, whatever is around it
    quoted = json.dumps(url).replace("<", "\\u003c")
    return _PAGE.format(
        name=html.escape(servable.name),
        rows="\n".join(rows),
        example=html.escape(json.dumps(_example(servable))),
        url=quoted,
        nonce=html.escape(nonce),
    )


def _example(servable: Servable) -> dict[str, Any]:
    """A request of zeros, with one for each size that may be any; large inputs are cut short."""
    name, signature = next(iter(servable.signatures.items()))
    values = {
        label: _zeros([1 if n is None else n for n in spec.shape] if spec.shape.rank else [])
        for label, spec in specs_of(signature).items()
    }
    only = next(iter(values.values())) if len(values) == 1 else values
    return {"signature_name": name, "inputs": only}


def _zeros(shape: list[int]) -> Any:
    return 0 if not shape else [_zeros(shape[1:]) for _ in range(min(shape[0], 32))]

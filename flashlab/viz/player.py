"""A stepper: frames of SVG with captions, played in an iframe that works without a kernel.

The iframe keeps its keys to itself (arrows, Home, End, space): the notebook never sees them.
A folded table gives every step in words, for readers who do not see the picture.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from flashlab.viz import palette


@dataclass(frozen=True)
class Frame:
    """One step: its picture, one or two sentences, and rows of a name and its numbers."""

    svg: str
    caption: str
    facts: tuple[tuple[str, ...], ...] = field(default=())


_STYLE = """
*{box-sizing:border-box}
body{margin:0;font:15px/1.45 system-ui,sans-serif;color:var(--fl-ink);background:var(--fl-paper)}
figure{margin:0;padding:10px 12px}
h1{font-size:16px;margin:0 0 6px}
#row{display:flex;flex-wrap:wrap;gap:14px;align-items:flex-start}
#stage{flex:1 1 300px;max-width:460px;min-width:0}#stage svg{width:100%;height:auto;display:block}
#facts{flex:1 1 200px;max-width:380px;border-collapse:collapse;background:var(--fl-panel)}
#facts th{text-align:left;font-weight:400;color:var(--fl-soft);padding:3px 8px;white-space:nowrap}
#facts td{text-align:right;font-variant-numeric:tabular-nums;padding:3px 8px;white-space:nowrap}
figcaption{min-height:3em;margin:8px 0}
nav{display:flex;gap:8px;align-items:center;flex-wrap:wrap}
button{font:inherit;color:inherit;background:var(--fl-panel);border:1px solid var(--fl-line);
border-radius:5px;padding:3px 12px;min-height:30px}
button:focus-visible,input:focus-visible,summary:focus-visible{outline:3px solid var(--fl-orange)}
input{flex:1 1 140px;max-width:340px;accent-color:var(--fl-blue)}
details{margin-top:8px}details table{border-collapse:collapse;font-size:13px}
details td{border-top:1px solid var(--fl-line);padding:3px 8px;vertical-align:top}
text{fill:var(--fl-ink);font-family:system-ui,sans-serif}
"""

_SCRIPT = """
const frames = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
let at = 0, timer = null;
function show(i) {
  at = Math.max(0, Math.min(frames.length - 1, i));
  const f = frames[at];
  $('stage').innerHTML = f.svg;
  $('caption').textContent = f.caption;
  $('facts').innerHTML = '';
  for (const [name, ...values] of f.facts) {
    const row = $('facts').insertRow();
    const th = document.createElement('th');
    th.scope = 'row'; th.textContent = name; row.append(th);
    for (const value of values) row.insertCell().textContent = value;
  }
  $('at').value = at;
  $('at').setAttribute('aria-valuetext', `step ${at + 1} of ${frames.length}`);
  $('count').textContent = `${at + 1} / ${frames.length}`;
  fit();
}
// The iframe is as high as the highest step so far, so that a page does not jump while it plays.
let width = 0, tallest = 0;
function grow() {
  tallest = Math.max(tallest, document.querySelector('figure').offsetHeight);
  try { frameElement.style.height = `${tallest + 2}px`; } catch (e) { /* it stands alone */ }
}
function fit() {
  if (!innerWidth) return;  // in a hidden tab
  if (innerWidth !== width) { tallest = 0; grow(); tallest = 0; width = innerWidth; }
  grow();
}
addEventListener('resize', fit);
document.querySelector('details').addEventListener('toggle', () => { tallest = 0; grow(); });
function stop() { clearInterval(timer); timer = null; $('play').textContent = 'Play'; }
function play() {
  if (timer) return stop();
  if (at === frames.length - 1) show(0);
  $('play').textContent = 'Pause';
  timer = setInterval(() => at < frames.length - 1 ? show(at + 1) : stop(), 900);
}
$('prev').onclick = () => { stop(); show(at - 1); };
$('next').onclick = () => { stop(); show(at + 1); };
$('play').onclick = play;
$('at').oninput = e => { stop(); show(+e.target.value); };
addEventListener('keydown', e => {
  const go = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: frames.length - 1}[e.key];
  if (go !== undefined) { stop(); show(go); e.preventDefault(); }
  else if (e.key === ' ' && !['BUTTON', 'SUMMARY'].includes(e.target.tagName)) {
    play(); e.preventDefault();
  }
  e.stopPropagation();
});
function follow() {
  const light = parent.document.body.dataset.jpThemeLight;
  const mode = parent.document.documentElement.dataset.theme;
  const root = document.documentElement;
  if (light !== undefined) root.dataset.theme = light === 'true' ? 'light' : 'dark';
  else if (mode === 'light' || mode === 'dark') root.dataset.theme = mode;
}
try {
  follow();
  const changes = new MutationObserver(follow);
  for (const node of [parent.document.body, parent.document.documentElement]) {
    changes.observe(node, {attributes: true});
  }
} catch (e) { /* another origin: the system's setting holds */ }
show(0);
"""


@dataclass(frozen=True)
class Player:
    """Frames with controls; displays itself in a notebook.

    Args:
        title: Heading of the figure.
        frames: At least one.
        height: Height of the iframe in CSS pixels.
    """

    title: str
    frames: Sequence[Frame]
    height: int = 520

    def __post_init__(self) -> None:
        if not self.frames:
            raise ValueError("a player needs at least one frame, and got none")

    def page(self) -> str:
        """The whole player as one HTML document without outside requests."""
        data = [{"svg": f.svg, "caption": f.caption, "facts": f.facts} for f in self.frames]
        text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
        rows = "".join(
            f"<tr><td>{i}</td><td>{html.escape(f.caption)}</td><td>"
            + "; ".join(html.escape(f"{name} {', '.join(values)}") for name, *values in f.facts)
            + "</td></tr>"
            for i, f in enumerate(self.frames, 1)
        )
        title, last = html.escape(self.title), len(self.frames) - 1
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width">'
            f"<style>{palette.css()}{_STYLE}</style>"
            f'<figure aria-label="{title}"><h1>{title}</h1>'
            '<div id="row"><div id="stage"></div><table id="facts"></table></div>'
            '<figcaption id="caption" aria-live="polite"></figcaption>'
            '<nav aria-label="steps"><button id="prev">Back</button>'
            '<button id="play">Play</button><button id="next">Next</button>'
            f'<input id="at" type="range" min="0" max="{last}" value="0" aria-label="step">'
            '<span id="count"></span></nav>'
            "<details><summary>All steps in words</summary>"
            f"<table>{rows}</table></details></figure>"
            f'<script id="data" type="application/json">{text}</script>'
            f"<script>{_SCRIPT}</script></html>"
        )

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page(), quote=True)}" '
            f'title="{html.escape(self.title, quote=True)}" width="100%" height="{self.height}" '
            'style="border:1px solid #8884;border-radius:6px" loading="lazy"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Player({self.title!r}, {len(self.frames)} steps)"

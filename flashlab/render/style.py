"""CSS of a report in a notebook: colours follow JupyterLab, Colab, VS Code or the system.

Status is never told by colour alone; pictures have borders and words. Floor: front.
"""

from flashlab.viz import palette

ROOT = ".flashlab-report"
# Shades of the tile map: right, over 1, 10, 100 limits, NaN. Light to dark, so grey prints work.
SHADES_LIGHT = ("#f3f5f8", "#f6e0b5", "#f0a860", "#b84a00", "#3b1c32")
SHADES_DARK = ("#1f252c", "#5b4717", "#a8651f", "#f0913f", "#ffd9f4")

RULES = """
{r}{{font:14px/1.5 system-ui,sans-serif;color:var(--fl-ink);background:var(--fl-paper);
border:1px solid var(--fl-line);border-left:6px solid var(--fl-accent);border-radius:6px;
padding:10px 14px;margin:4px 0;max-width:860px;overflow-wrap:anywhere}}
{r} *{{box-sizing:border-box}}
{r}.fl-good{{--fl-accent:var(--fl-green)}}{r}.fl-bad{{--fl-accent:var(--fl-orange)}}
{r} .fl-top{{display:flex;flex-wrap:wrap;gap:4px 14px;align-items:baseline;color:var(--fl-soft)}}
{r} .fl-mark{{font-weight:700;color:var(--fl-accent)}}
{r} .fl-name{{font-weight:700;color:var(--fl-ink);font-size:15px}}
{r} .fl-head{{font-size:17px;line-height:1.4;font-weight:600;margin:6px 0 8px;color:var(--fl-ink)}}
{r} dl{{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:5px 14px;margin:8px 0}}
{r} dl dt{{float:none;width:auto;color:var(--fl-soft);font-weight:600}}
{r} dl dd{{float:none;width:auto;margin:0;min-width:0}}
{r} dd p{{margin:0 0 2px}}{r} .fl-soft{{color:var(--fl-soft)}}
{r} code,{r} pre{{font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;color:var(--fl-ink);
background:var(--fl-panel)}}
{r} pre{{margin:3px 0;padding:7px 10px;border-radius:5px;overflow-x:auto;white-space:pre;
user-select:text}}
{r} details{{border-top:1px solid var(--fl-line);padding:5px 0}}
{r} summary{{cursor:pointer;font-weight:600;color:var(--fl-ink);min-height:24px}}
{r} summary:focus-visible{{outline:3px solid var(--fl-blue);outline-offset:2px}}
{r} .fl-scroll{{overflow-x:auto}}
{r} table{{border-collapse:collapse;margin:4px 0;font-size:13px;color:var(--fl-ink)}}
{r} table th,{r} table td{{text-align:left;padding:3px 10px 3px 0;border:0;
border-top:1px solid var(--fl-line);background:none;vertical-align:top}}
{r} th{{color:var(--fl-soft);font-weight:600;white-space:nowrap}}
{r} table .fl-num{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
{r} .fl-keep{{white-space:nowrap}}
{r} .fl-no{{color:var(--fl-orange);font-weight:700}}{r} .fl-yes{{color:var(--fl-green)}}
{r} svg{{display:block;max-width:100%;height:auto;margin:4px 0}}
{r} svg text{{fill:var(--fl-ink);font:11px system-ui,sans-serif}}
{r} svg rect{{stroke:var(--fl-line);stroke-width:1}}
"""


def css() -> str:
    """The style of every report on a page; safe to repeat."""
    light, dark = (
        {f"shade{i}": colour for i, colour in enumerate(shades)}
        for shades in (SHADES_LIGHT, SHADES_DARK)
    )
    rules = RULES.format(r=ROOT * 2)  # twice: outweighs JupyterLab's rules for tables and code
    return palette.inline(ROOT, light, dark) + rules

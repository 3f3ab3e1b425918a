--- The page's style: light or dark, any width. Colours have a contrast of at least 4.5.
return [[
:root { --back: #ffffff; --text: #1b1f23; --muted: #545b62; --line: #d0d7de; --link: #0550ae;
  --good: #116329; --odd: #7d4e00; --bad: #a40e26; --got: #0969da; --failed: #9a6700; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181d; --text: #e6edf3; --muted: #a3adb8; --line: #3d444d; --link: #79b8ff;
    --good: #7ee2a0; --odd: #f0c060; --bad: #ff9a9a; --got: #79b8ff; --failed: #f0c060; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
a { color: var(--link); }
a:focus-visible, input:focus-visible, button:focus-visible { outline: 3px solid var(--link);
  outline-offset: 2px; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .5rem 0; }
nav a, nav label { display: inline-block; padding: .25rem 0; }
.muted { color: var(--muted); }
.good { color: var(--good); } .odd { color: var(--odd); } .bad { color: var(--bad); }
.good, .odd, .bad { font-weight: 600; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 0; }
dl div { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .75rem; }
dt { color: var(--muted); font-size: .9rem; }
dd { margin: 0; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-size: .9rem; font-weight: 600; }
.chart { display: grid; grid-template-columns: auto 1fr; gap: .25rem .5rem; margin: 1rem 0; }
.numbers, .times { color: var(--muted); font-size: .9rem; line-height: 1.25rem;
  font-variant-numeric: tabular-nums; }
.numbers { display: flex; flex-direction: column; justify-content: space-between; text-align: right;
  margin: -.6rem 0; }
.times { grid-column: 2; position: relative; height: 1.25rem; }
.times span { position: absolute; transform: translateX(-50%); }
svg { display: block; width: 100%; height: 8rem; border: 1px solid var(--line);
  overflow: visible; }
.grid { stroke: var(--line); vector-effect: non-scaling-stroke; }
polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
.line-got { stroke: var(--got); } .line-failed { stroke: var(--failed); stroke-dasharray: 6 3; }
.line-lost { stroke: var(--bad); stroke-width: 3; vector-effect: non-scaling-stroke; }
.key-got { color: var(--got); } .key-failed { color: var(--failed); }
.key-lost { color: var(--bad); }
@media (min-width: 48rem) {
  th, .short { white-space: nowrap; }
}
@media (max-width: 48rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, td { display: block; }
  tr { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .75rem;
    margin: 0 0 .5rem; }
  td { border: 0; padding: .1rem 0; }
  td::before { content: attr(data-label) ": "; color: var(--muted); font-size: .9rem; }
}
]]

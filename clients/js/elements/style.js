// SPDX-License-Identifier: Apache-2.0
/** The look that all elements share. Set `--tidings-*` properties on an element to change it. */

export const STYLE = `
:host {
  --accent: var(--tidings-accent, light-dark(#4353d9, #9aa5ff));
  --on-accent: var(--tidings-on-accent, light-dark(#fff, #10132e));
  --surface: var(--tidings-surface, light-dark(#fff, #14161a));
  --raised: var(--tidings-raised, light-dark(#f2f3f7, #22252b));
  --hover: color-mix(in srgb, var(--text) 6%, transparent);
  --own: var(--tidings-own, light-dark(#e2e6ff, #2b3364));
  --text: var(--tidings-text, light-dark(#17191e, #eceef2));
  --faint: var(--tidings-faint, light-dark(#5c6372, #a2a9b8));
  --line: var(--tidings-line, light-dark(#e4e6ec, #2c3038));
  --danger: var(--tidings-danger, light-dark(#b3261e, #ff9f97));
  --radius: var(--tidings-radius, 14px);
  --shadow: 0 8px 28px light-dark(#1c20401f, #0009), 0 1px 3px light-dark(#1c20401a, #0006);
  background: var(--surface);
  color: var(--text);
  color-scheme: light dark;
  container-type: inline-size;
  display: block;
  font: var(--tidings-font, 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif);
}
* { box-sizing: border-box; }
button, input, textarea, select { color: inherit; font: inherit; }
button { background: none; border: 0; border-radius: 10px; cursor: pointer; padding: 7px 12px; }
button:hover, .entry:hover { background: var(--hover); }
button.main { background: var(--accent); color: var(--on-accent); font-weight: 600; }
button.main:hover { filter: brightness(1.08); }
button.link { color: var(--accent); font-weight: 600; padding: 2px 6px; }
button.wide { color: var(--accent); inline-size: 100%; }
.round { align-items: center; block-size: 38px; border-radius: 50%; display: inline-flex; flex: none; inline-size: 38px; justify-content: center; padding: 0; position: relative; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
input, textarea, select { background: var(--raised); border: 1px solid transparent; border-radius: 10px; padding: 8px 12px; }
input:not([type="checkbox"]) { inline-size: 100%; }
input:focus-visible, textarea:focus-visible { border-color: var(--accent); outline-offset: -1px; }
::placeholder { color: var(--faint); opacity: 1; }
ul { list-style: none; margin: 0; padding: 0; }
h2, h3, p { margin: 0; }
h2 { font-size: 1em; font-weight: 650; }
h3 { color: var(--faint); font-size: 0.87em; font-weight: 600; margin-block: 12px 2px; }
.icon { block-size: 20px; fill: none; flex: none; inline-size: 20px; stroke: currentColor; stroke-linecap: round; stroke-linejoin: round; stroke-width: 1.9; }
.icon.i-more { stroke-width: 2.8; }
:dir(rtl) > .icon:is(.i-back, .i-send, .i-leave, .i-reply) { transform: scaleX(-1); }
.faint { color: var(--faint); font-size: 0.87em; }
.warn { color: var(--danger); }
.badge { background: var(--accent); block-size: 1.6em; border-radius: 1em; color: var(--on-accent); flex: none; font-size: 0.77em; font-weight: 700; line-height: 1.6em; min-inline-size: 1.6em; padding-inline: 5px; text-align: center; }
.badge:empty { block-size: 10px; min-inline-size: 10px; padding: 0; }
.bar { align-items: center; display: flex; gap: 8px; }
.grow { flex: 1; min-inline-size: 0; }
.cut { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.empty { color: var(--faint); margin: auto; padding: 32px 24px; text-align: center; }
.unseen { block-size: 1px; clip-path: inset(50%); inline-size: 1px; margin: 0; overflow: hidden; position: absolute; white-space: nowrap; }
.face { align-items: center; background: var(--raised); block-size: 42px; border-radius: 50%; display: inline-flex; flex: none; font-weight: 650; inline-size: 42px; justify-content: center; object-fit: cover; }
.hue0 { background: light-dark(#dfe3ff, #30376b); color: light-dark(#2c379f, #c3cbff); }
.hue1 { background: light-dark(#d3f0e4, #1d4436); color: light-dark(#115c40, #a5e6cb); }
.hue2 { background: light-dark(#ffe4d3, #573020); color: light-dark(#8a3b10, #ffc7a6); }
.hue3 { background: light-dark(#fbdcec, #572540); color: light-dark(#8c1d5b, #ffb9dc); }
.hue4 { background: light-dark(#d8ecfb, #1d4058); color: light-dark(#0d5280, #abdcff); }
.hue5 { background: light-dark(#eee0fb, #43285c); color: light-dark(#5c2c8c, #dcbfff); }
.entry bdi, .entry [dir], .cut, .note [dir] { text-align: match-parent; }
.entry { align-items: center; border-radius: 12px; display: flex; gap: 12px; inline-size: 100%; padding: 9px 10px; text-align: start; }
dialog, [popover] { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow); color: var(--text); }
@media (forced-colors: active) {
  .badge, .face, button.main, .round, input, textarea, select { border: 1px solid; }
  .icon { stroke: CanvasText; }
}
`;

/** @type {Map<string, CSSStyleSheet>} */
const SHEETS = new Map();

/**
 * Return a style sheet that all elements share. A page may forbid inline styles, but not this.
 *
 * @param {string} css
 */
export function sheet(css) {
  const known = SHEETS.get(css);
  if (known) return known;
  const made = new CSSStyleSheet();
  made.replaceSync(css);
  SHEETS.set(css, made);
  return made;
}

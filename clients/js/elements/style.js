// SPDX-License-Identifier: Apache-2.0
/** The look of the elements. Set `--tidings-*` properties on an element to change it. */

const CSS = `
:host {
  --accent: var(--tidings-accent, light-dark(#2557a7, #8ab4f8));
  --on-accent: var(--tidings-on-accent, light-dark(#fff, #10203a));
  --surface: var(--tidings-surface, light-dark(#fff, #17191d));
  --raised: var(--tidings-raised, light-dark(#f1f3f6, #23262c));
  --own: var(--tidings-own, light-dark(#dbe8ff, #23395d));
  --text: var(--tidings-text, light-dark(#16181c, #e8eaed));
  --faint: var(--tidings-faint, light-dark(#5a6270, #a3abb8));
  --line: var(--tidings-line, light-dark(#d9dee6, #363b44));
  --danger: var(--tidings-danger, light-dark(#a8201a, #ff9d94));
  --radius: var(--tidings-radius, 10px);
  color-scheme: light dark;
  display: block;
  background: var(--surface);
  color: var(--text);
  font: var(--tidings-font, 15px/1.45 system-ui, sans-serif);
  container-type: inline-size;
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
button, input, textarea { font: inherit; color: inherit; }
button { background: none; border: 0; border-radius: var(--radius); cursor: pointer; padding: 6px 10px; }
button:hover { background: var(--raised); }
button.main { background: var(--accent); color: var(--on-accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
input, textarea { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); padding: 8px 10px; inline-size: 100%; }
ul { list-style: none; margin: 0; padding: 0; }
.faint { color: var(--faint); font-size: 0.87em; }
.badge { background: var(--accent); color: var(--on-accent); border-radius: 99px; font-size: 0.8em; min-inline-size: 1.5em; padding: 0 6px; text-align: center; }
.bar { align-items: center; display: flex; gap: 6px; }
.grow { flex: 1; min-inline-size: 0; }
.cut { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.unseen { block-size: 1px; clip-path: inset(50%); inline-size: 1px; overflow: hidden; position: absolute; white-space: nowrap; }
.banner { background: var(--raised); padding: 6px 12px; text-align: center; }
dialog, [popover] { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); color: var(--text); padding: 14px; }
dialog form { display: grid; gap: 10px; min-inline-size: min(22rem, 80vw); }
dialog h2 { font-size: 1.1em; margin: 0; }
.frame { block-size: 100%; display: grid; grid-template-columns: minmax(14rem, 20rem) 1fr; }
.list { border-inline-end: 1px solid var(--line); display: flex; flex-direction: column; min-block-size: 0; }
.list ul { flex: 1; overflow-y: auto; }
.list li button { align-items: center; border-radius: 0; display: flex; gap: 10px; inline-size: 100%; padding: 9px 12px; text-align: start; }
.list li button[aria-current="true"] { background: var(--raised); }
.face { align-items: center; background: var(--raised); block-size: 2.4em; border-radius: 50%; display: flex; flex: none; inline-size: 2.4em; justify-content: center; object-fit: cover; }
.talk { display: flex; flex-direction: column; min-block-size: 0; min-inline-size: 0; position: relative; }
.head { border-block-end: 1px solid var(--line); padding: 8px 12px; }
.head h2 { font-size: 1.05em; margin: 0; }
.log { flex: 1; min-block-size: 0; overflow-anchor: none; overflow-y: auto; padding: 12px; }
.row { content-visibility: auto; contain-intrinsic-size: auto 48px; margin-block: 2px; max-inline-size: min(42rem, 85%); position: relative; }
.row.own { margin-inline-start: auto; }
.row.first { margin-block-start: 10px; }
.bubble { inline-size: fit-content; background: var(--raised); border-radius: var(--radius); padding: 6px 10px; overflow-wrap: anywhere; white-space: pre-wrap; }
.own .bubble { margin-inline-start: auto; background: var(--own); }
.big .bubble { background: none; font-size: 2.2em; line-height: 1.2; padding: 0; }
.failed .bubble { border: 1px solid var(--danger); }
.gone .bubble { background: none; border: 1px dashed var(--line); color: var(--faint); font-style: italic; }
.meta { display: flex; gap: 6px; justify-content: end; }
.reactions { display: flex; flex-wrap: wrap; gap: 4px; }
.reactions button { border: 1px solid var(--line); border-radius: 99px; padding: 0 8px; }
.happened, .day, .divider { color: var(--faint); font-size: 0.87em; margin-block: 10px; text-align: center; }
.divider { border-block-end: 1px solid var(--accent); color: var(--accent); }
.tools { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); display: none; inset-block-start: -14px; inset-inline-end: 4px; position: absolute; }
.row:hover .tools, .row:focus-within .tools { display: flex; }
.tools button { padding: 1px 7px; }
.jump { inset-block-end: 76px; inset-inline-end: 18px; background: var(--surface); border: 1px solid var(--line); position: absolute; }
.composer { align-items: end; border-block-start: 1px solid var(--line); display: flex; gap: 8px; padding: 10px 12px; }
.composer textarea { field-sizing: content; max-block-size: 9em; min-block-size: 2.6em; resize: none; }
.empty { color: var(--faint); margin: auto; padding: 24px; text-align: center; }
.note { border-block-end: 1px solid var(--line); display: grid; gap: 2px; padding: 10px 12px; text-align: start; inline-size: 100%; border-radius: 0; }
.note.new { border-inline-start: 3px solid var(--accent); }
@container (max-width: 40rem) {
  .frame { grid-template-columns: 1fr; }
  .frame.open .list, .frame:not(.open) .talk { display: none; }
}
@media (prefers-reduced-motion: no-preference) { .log.smooth { scroll-behavior: smooth; } }
@media (forced-colors: active) { .bubble, .badge { border: 1px solid; } }
`;

/** @type {CSSStyleSheet | undefined} */
let sheet;

/** Return the one style sheet that all elements share. */
export function style() {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  return sheet;
}

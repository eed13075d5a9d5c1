// SPDX-License-Identifier: Apache-2.0
/** The look of `<tidings-chat>`. */

export const CHAT_STYLE = `
:host { block-size: 100%; display: flex; flex-direction: column; min-block-size: 0; overflow: hidden; position: relative; }
.banner { background: light-dark(#fff3d6, #3d3115); color: light-dark(#5f4300, #ffdf9b); font-size: 0.9em; padding: 7px 14px; text-align: center; }
.frame { display: grid; flex: 1; grid-template-columns: minmax(250px, 340px) 1fr; min-block-size: 0; }
.list { border-inline-end: 1px solid var(--line); display: flex; flex-direction: column; min-block-size: 0; min-inline-size: 0; overflow-y: auto; padding: 0 8px 8px; scrollbar-width: thin; }
.tools { align-items: center; background: var(--surface); display: flex; gap: 2px; inset-block-start: 0; padding: 10px 0 8px 4px; position: sticky; z-index: 1; }
.search { position: relative; }
.search .icon { block-size: 17px; color: var(--faint); inset-block-start: 10px; inset-inline-start: 12px; position: absolute; }
.search input { border-radius: 19px; padding-inline-start: 36px; }
.entry[aria-current] { background: color-mix(in srgb, var(--accent) 12%, transparent); }
.portrait { display: flex; position: relative; }
.dot { background: light-dark(#1f9d61, #4cd48f); block-size: 12px; border: 2px solid var(--surface); border-radius: 50%; inline-size: 12px; inset-block-end: 0; inset-inline-end: 0; position: absolute; }
.lines { display: flex; flex-direction: column; gap: 1px; }
.lines > .bar { min-block-size: 1.5em; }
.title { font-weight: 600; }
.bar .icon.i-muted { block-size: 15px; inline-size: 15px; }
.typing { color: var(--accent); }
.talk { display: flex; flex-direction: column; min-block-size: 0; min-inline-size: 0; }
.head { border-block-end: 1px solid var(--line); gap: 10px; min-block-size: 60px; padding: 8px 14px; }
.back { display: none; }
.head .face { block-size: 38px; inline-size: 38px; }
.scroller { display: flex; flex: 1; min-block-size: 0; position: relative; }
.log { display: flex; flex: 1; flex-direction: column; min-inline-size: 0; overflow: hidden auto; overflow-anchor: none; padding: 12px max(16px, (100% - 880px) / 2); position: relative; scrollbar-width: thin; }
.log > :first-child { margin-block-start: auto; }
.item { contain-intrinsic-size: auto 44px; content-visibility: auto; flex: none; padding-block: 1px; }
.item:focus-visible { border-radius: 12px; outline-offset: -2px; }
.spacer { flex: none; }
.row { align-items: start; display: flex; gap: 8px; }
.row.first { padding-block-start: 8px; }
.row .face { block-size: 30px; font-size: 0.85em; inline-size: 30px; margin-block-start: 20px; }
.row .face.none { background: none; block-size: 0; margin: 0; }
.row.own { flex-direction: row-reverse; }
.stack { align-items: start; display: flex; flex-direction: column; max-inline-size: min(600px, 82%); min-inline-size: 0; }
.own .stack { align-items: end; }
.author { font-weight: 600; padding: 0 4px 2px; }
.bubble { align-items: end; background: var(--raised); border-radius: var(--radius); column-gap: 10px; display: flex; flex-wrap: wrap; justify-content: end; max-inline-size: 100%; padding: 7px 12px; }
.own .bubble { background: var(--own); }
.first .bubble { border-start-start-radius: 5px; }
.own.first .bubble { border-start-start-radius: var(--radius); border-start-end-radius: 5px; }
.text { flex: 1 1 auto; max-inline-size: 100%; min-inline-size: 0; overflow-wrap: anywhere; unicode-bidi: isolate; white-space: pre-wrap; }
.text a { color: var(--accent); direction: ltr; unicode-bidi: isolate; }
.files { flex: 1 1 100%; margin: 0; overflow-wrap: anywhere; padding-inline-start: 1.2em; }
.big .text { font-size: 2.4em; line-height: 1.25; }
.big .bubble { background: none; padding-inline: 4px; }
.meta { align-items: center; color: color-mix(in srgb, var(--faint) 90%, var(--text)); display: flex; flex: none; font-size: 0.77em; gap: 6px; line-height: 1.7; }
.meta span { align-items: center; display: inline-flex; gap: 3px; }
.meta .icon { block-size: 15px; inline-size: 15px; }
.tick.read { color: var(--accent); }
.tick.failed { color: var(--danger); }
.pending .bubble { opacity: 0.8; }
.failed .bubble { box-shadow: inset 0 0 0 1px var(--danger); }
.failure { flex-wrap: wrap; padding-block: 3px; }
.gone .bubble { background: none; box-shadow: inset 0 0 0 1px var(--line); }
.gone .text { color: var(--faint); font-style: italic; }
.gone .text button { font-style: normal; }
.reactions { display: flex; flex-wrap: wrap; gap: 4px; margin-block: -5px 4px; padding-inline: 8px; }
.reactions button { background: var(--surface); border: 1px solid var(--line); border-radius: 14px; font-size: 0.87em; line-height: 1.4; padding: 1px 9px; }
.reactions [aria-pressed="true"] { background: var(--own); border-color: var(--accent); font-weight: 650; }
.actions { align-self: center; block-size: 30px; color: var(--faint); inline-size: 30px; opacity: 0; }
.item:hover .actions, .item:focus .actions, .item:focus-within .actions { opacity: 1; }
.happened { color: var(--faint); font-size: 0.85em; padding: 6px 20px; text-align: center; }
.day { display: flex; justify-content: center; padding-block: 14px 8px; }
.day span { background: var(--raised); border-radius: 12px; color: var(--faint); font-size: 0.8em; font-weight: 600; padding: 3px 12px; }
.floating { inset-block-start: 0; inset-inline: 0; opacity: 0; pointer-events: none; position: absolute; }
.floating.shown { opacity: 1; }
.floating span { box-shadow: var(--shadow); }
.divider { align-items: center; color: var(--accent); display: flex; font-size: 0.82em; font-weight: 650; gap: 12px; padding-block: 12px 6px; }
.divider::before, .divider::after { background: currentColor; block-size: 1px; content: ""; flex: 1; opacity: 0.35; }
.jump { align-items: center; background: var(--surface); block-size: 42px; border: 1px solid var(--line); border-radius: 21px; box-shadow: var(--shadow); display: flex; gap: 6px; inset-block-end: 12px; inset-inline-end: 18px; padding: 0 10px; position: absolute; }
.jump:hover { background: var(--raised); }
.composer { padding: 6px max(14px, (100% - 880px) / 2) max(12px, env(safe-area-inset-bottom)); }
.field { align-items: end; background: var(--raised); border: 1px solid transparent; border-radius: 24px; display: flex; gap: 4px; padding: 4px; }
.field:focus-within { border-color: var(--accent); }
.field textarea { background: none; border: 0; field-sizing: content; flex: 1; max-block-size: 9em; min-block-size: 38px; min-inline-size: 0; outline: none; padding: 8px 14px; resize: none; }
.editing { padding: 4px 14px; }
.editing .icon { block-size: 16px; inline-size: 16px; }
.count { align-self: center; flex: none; font-size: 0.8em; padding-inline: 6px; }
.timer { color: var(--faint); }
.timer.on { color: var(--accent); }
.timer:hover { background: var(--hover); }
.timer :is(select, input) { cursor: pointer; inset: 0; opacity: 0; padding: 0; position: absolute; }
.timer:focus-within { outline: 2px solid var(--accent); }
.empty.big .icon { block-size: 56px; inline-size: 56px; stroke-width: 1.1; }
.notice { background: var(--text); border-radius: 12px; color: var(--surface); font-size: 0.92em; inset-block-end: 92px; inset-inline: 0; margin-inline: auto; inline-size: fit-content; max-inline-size: 80%; padding: 9px 16px; position: absolute; z-index: 2; }
.notice:empty { padding: 0; }
.menu { inset: auto; margin: 0; min-inline-size: 190px; padding: 6px; position: fixed; }
.menu:popover-open { display: grid; }
.menu button { text-align: start; }
.quick { display: flex; padding-block-end: 4px; }
.quick button { flex: 1; font-size: 1.25em; padding: 4px 7px; text-align: center; }
dialog { inline-size: min(420px, calc(100vw - 24px)); max-block-size: min(640px, calc(100dvh - 24px)); padding: 14px 18px 18px; }
dialog::backdrop { background: #0d0f1a66; }
dialog h2 { font-size: 1.1em; }
dialog form { display: grid; gap: 12px; }
dialog form.line { align-items: end; display: flex; gap: 8px; padding-block: 8px; }
dialog label:not(.entry) { color: var(--faint); font-size: 0.87em; }
dialog label input { color: var(--text); font-size: 15px; margin-block-start: 3px; }
dialog label select { color: var(--text); display: block; font-size: 15px; inline-size: 100%; margin-block-start: 3px; }
dialog p { padding-block: 4px; }
.people { margin-inline: -10px; max-block-size: 280px; overflow-y: auto; }
.people .face, section .face { block-size: 34px; inline-size: 34px; }
.people select { padding: 4px 6px; }
.people.long { max-block-size: min(420px, 50dvh); }
.few { display: -webkit-box; overflow: hidden; overflow-wrap: anywhere; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
.answered { border-inline-start: 3px solid var(--accent); margin-block: 6px; }
.round .badge:empty { inset-block-start: 4px; inset-inline-end: 4px; position: absolute; }
.quote { background: var(--hover); border-inline-start: 3px solid var(--accent); border-radius: 6px; display: grid; flex: 1 1 100%; font-size: 0.87em; margin-block-end: 4px; max-inline-size: 100%; padding: 3px 9px; text-align: start; }
.quote .author { color: var(--accent); padding: 0; }
mark { background: none; color: var(--accent); font-weight: 600; }
.called .bubble { border-inline-start: 3px solid var(--accent); }
.called mark { background: color-mix(in srgb, var(--accent) 18%, transparent); border-radius: 4px; color: inherit; }
.pins { border-block-end: 1px solid var(--line); color: var(--faint); padding: 3px 14px; }
.pins .grow { color: var(--text); text-align: start; }
.mentionable { background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); box-shadow: var(--shadow); margin-block-end: 6px; max-block-size: 260px; overflow-y: auto; padding: 4px; }
.mentionable .entry { cursor: pointer; padding: 5px 8px; }
.mentionable [aria-selected="true"] { background: color-mix(in srgb, var(--accent) 14%, transparent); }
.mentionable .face { block-size: 30px; inline-size: 30px; }
@container (max-width: 640px) {
  .frame { grid-template-columns: 1fr; }
  .list { border: 0; }
  .frame.open .list, .frame:not(.open) .talk { display: none; }
  .back { display: inline-flex; margin-inline-start: -8px; }
  .log { padding-inline: 12px; }
  .stack { max-inline-size: 84%; }
}
@media (pointer: coarse) { .actions { opacity: 0.55; } .round { block-size: 42px; inline-size: 42px; } }
@media (prefers-reduced-motion: no-preference) {
  .actions, .floating { transition: opacity 0.15s; }
  .target .bubble { animation: flash 2.2s; }
  @keyframes flash { 0%, 60% { box-shadow: 0 0 0 3px var(--accent); } }
}
.target .bubble { outline: 2px solid var(--accent); }
@media (forced-colors: active) { .bubble, .day span, .notice:not(:empty), .dot { border: 1px solid; } .tick.read { color: Highlight; } .entry:is([aria-current], [aria-selected="true"]) { outline: 2px solid Highlight; } }
`;

// SPDX-License-Identifier: Apache-2.0
/** The look of `<tidings-inbox>` and `<tidings-bell>`. */

export const INBOX_STYLE = `
.top { min-block-size: 46px; padding: 8px 8px 4px 16px; }
:host(:dir(rtl)) .top { padding: 8px 16px 4px 8px; }
.tabs { display: flex; gap: 6px; overflow-x: auto; padding: 4px 14px 10px; scrollbar-width: none; }
.tabs button { align-items: center; border: 1px solid var(--line); border-radius: 16px; display: flex; flex: none; font-size: 0.9em; gap: 6px; padding: 4px 12px; }
.tabs button[aria-pressed="true"] { background: var(--text); border-color: var(--text); color: var(--surface); }
.note { align-items: start; border-block-start: 1px solid var(--line); border-radius: 0; display: flex; gap: 10px; inline-size: 100%; overflow-wrap: anywhere; padding: 12px 16px 2px; text-align: start; }
.note strong { font-weight: 620; }
.note .bar { align-items: baseline; }
.note .body { display: block; unicode-bidi: isolate; white-space: pre-wrap; }
.acts { align-items: center; display: flex; flex-wrap: wrap; gap: 6px; padding: 0 12px 8px 36px; }
:host(:dir(rtl)) .acts { padding: 0 36px 8px 12px; }
.acts button { border: 1px solid var(--line); border-radius: 16px; padding: 4px 12px; }
.acts button[aria-pressed="true"] { background: var(--text); color: var(--surface); opacity: 1; }
.acts .small { border: 0; padding: 4px; }
.mark { flex: none; inline-size: 10px; padding-block-start: 6px; }
.mark .badge { display: block; }
.empty .icon { block-size: 40px; inline-size: 40px; stroke-width: 1.3; }
:host(tidings-bell) { background: none; container-type: normal; display: inline-block; position: relative; }
.round + .badge { border: 2px solid var(--surface); block-size: 20px; font-size: 11px; inset-block-start: -2px; inset-inline-end: -2px; line-height: 16px; min-inline-size: 20px; padding-inline: 3px; pointer-events: none; position: absolute; }
.badge.seen { background: var(--raised); color: var(--text); }
.panel { inline-size: min(400px, calc(100vw - 16px)); inset: auto; margin: 0; max-block-size: min(600px, calc(100dvh - 80px)); overflow-y: auto; padding: 0; position: fixed; }
.panel select { margin: 10px 14px 0; }
@media (forced-colors: active) { .tabs button[aria-pressed="true"] { background: Highlight; color: HighlightText; forced-color-adjust: none; } }
`;

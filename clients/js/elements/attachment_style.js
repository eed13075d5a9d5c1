// SPDX-License-Identifier: Apache-2.0
/** The look of files in `<tidings-chat>`. */

export const ATTACHMENT_STYLE = `
.bubble:has(.media) { inline-size: 344px; }
.files.media, .files.media li { display: grid; gap: 6px; grid-template-columns: minmax(0, 1fr); }
.files.media { margin-block: 4px 2px; padding: 0; }
.picture { background: var(--hover); border-radius: 10px; display: block; max-block-size: 380px; max-inline-size: 100%; min-block-size: 48px; overflow: hidden; padding: 0; }
.picture:hover { filter: brightness(0.97); }
img.picture, .picture img { block-size: 100%; display: block; inline-size: 100%; object-fit: cover; }
.player { background: var(--hover); border-radius: 10px; display: block; max-inline-size: 100%; }
.player.audio { block-size: 44px; border-radius: 22px; inline-size: 100%; }
.player.video { max-block-size: 380px; min-block-size: 120px; min-inline-size: 200px; }
.file { align-items: center; background: var(--hover); border-radius: 10px; display: flex; gap: 10px; inline-size: 100%; padding: 7px 10px; text-align: start; }
.file .faint { color: color-mix(in srgb, var(--faint) 50%, var(--text)); }
.file progress { accent-color: var(--accent); block-size: 8px; inline-size: 100%; }
.kind { align-items: center; background: var(--surface); block-size: 36px; border-radius: 8px; color: var(--accent); display: flex; flex: none; inline-size: 36px; justify-content: center; }
.tray { display: flex; flex-wrap: wrap; gap: 8px; margin-block-end: 8px; max-block-size: 190px; overflow-y: auto; }
.tray li { align-items: center; background: var(--raised); border-radius: 12px; display: flex; gap: 8px; inline-size: 240px; max-inline-size: 100%; padding: 6px; }
.tray img { block-size: 44px; border-radius: 8px; inline-size: 44px; object-fit: cover; }
.live { background: var(--danger); block-size: 10px; border-radius: 50%; inline-size: 10px; }
dialog.picture-dialog { inline-size: fit-content; max-block-size: calc(100dvh - 24px); max-inline-size: min(1100px, calc(100vw - 24px)); }
.whole { border-radius: 8px; display: block; margin-block: 8px; max-block-size: 72dvh; max-inline-size: 100%; object-fit: contain; }
@media (forced-colors: active) { .file, .tray li, .picture { border: 1px solid; } }
`;

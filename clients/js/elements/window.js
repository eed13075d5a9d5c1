// SPDX-License-Identifier: Apache-2.0
/**
 * Decide which rows of a long list are in the page, and how much room the others take. No DOM.
 *
 * The page has about 200 rows. The window moves only when what is seen comes near its edge, so that
 * most scrolling changes nothing.
 */

/** @typedef {{from: number, to: number}} Range - Rows from `from` up to, but without, `to`. */

export const WINDOW_ROWS = 200;
export const WINDOW_ROWS_MAX = 250;
const EDGE_ROWS = 50;
const GUESS_PX = 56;

/**
 * Return the rows that belong into the page.
 *
 * @param {number} count - All rows.
 * @param {Range | null} old - What is in the page now.
 * @param {number} first - The first row that is seen.
 * @param {number} last - The last row that is seen.
 * @returns {Range}
 */
export function slide(count, old, first, last) {
  if (count <= WINDOW_ROWS) return { from: 0, to: count };
  if (old && isEnough(count, old, first, last)) return old;
  // A list that grows at its end while somebody looks at the end grows in the page, too.
  if (old && last >= count - 1 && old.to < count && count - old.from <= WINDOW_ROWS_MAX) {
    return { from: old.from, to: count };
  }
  const middle = Math.floor((first + last) / 2);
  const from = Math.max(0, Math.min(count - WINDOW_ROWS, middle - WINDOW_ROWS / 2));
  return { from, to: from + WINDOW_ROWS };
}

/**
 * @param {number} count
 * @param {Range} old
 * @param {number} first
 * @param {number} last
 */
function isEnough(count, { from, to }, first, last) {
  if (to > count || to - from > WINDOW_ROWS_MAX || to - from < WINDOW_ROWS) return false;
  const above = from === 0 || first - from >= EDGE_ROWS;
  const below = to === count || to - 1 - last >= EDGE_ROWS;
  return above && below;
}

/**
 * Find where a range is after rows were added or removed; null if its rows are gone.
 *
 * @param {readonly string[]} keys - The keys of all rows.
 * @param {string | undefined} first - The key of the first row of the range.
 * @param {string | undefined} last - The key of its last row.
 * @returns {Range | null}
 */
export function found(keys, first, last) {
  if (first === undefined || last === undefined) return null;
  const from = keys.indexOf(first);
  const to = keys.lastIndexOf(last) + 1;
  return from < 0 || to <= from ? null : { from, to };
}

/** The heights of rows, as far as they were measured; for others the average stands. */
export class Heights {
  #heights = /** @type {Map<string, number>} */ (new Map());
  #sum = 0;

  /**
   * @param {string} key
   * @param {number} height
   */
  set(key, height) {
    this.#sum += height - (this.#heights.get(key) ?? 0);
    this.#heights.set(key, height);
  }

  /** @param {readonly string[]} keys - Rows that are not in the page. */
  of(keys) {
    const { size } = this.#heights;
    const guess = size ? this.#sum / size : GUESS_PX;
    return Math.round(keys.reduce((sum, key) => sum + (this.#heights.get(key) ?? guess), 0));
  }

  /** Forget the rows that are not in the list any more. @param {readonly string[]} keys */
  keep(keys) {
    if (this.#heights.size < 2 * keys.length + WINDOW_ROWS_MAX) return;
    const kept = new Set(keys);
    for (const [key, height] of this.#heights) {
      if (kept.has(key)) continue;
      this.#sum -= height;
      this.#heights.delete(key);
    }
  }
}

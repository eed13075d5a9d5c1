// SPDX-License-Identifier: Apache-2.0
/** Read the metrics of a process from their text format. */

/** @typedef {Record<string, string>} Labels */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export class Metrics {
  /** @type {Map<string, {labels: Labels, value: number}[]>} */
  #series = new Map();

  /**
   * @param {string} text
   * @param {number} at
   */
  constructor(text, at) {
    this.at = at;
    for (const line of text.split("\n")) {
      const [, name, given = "", value] = LINE.exec(line) ?? [];
      if (!name || value === undefined) continue;
      const labels = Object.fromEntries(
        [...given.matchAll(LABEL)].map(([, key, text]) => [key, text]),
      );
      const all = this.#series.get(name) ?? [];
      all.push({ labels, value: Number(value) });
      this.#series.set(name, all);
    }
  }

  /** All values of a metric, with their labels. @param {string} name */
  labelled(name) {
    return this.#series.get(name) ?? [];
  }

  /**
   * The sum of all values that have these labels.
   *
   * @param {string} name
   * @param {Labels} [labels]
   */
  sum(name, labels = {}) {
    return this.#with(name, labels).reduce((sum, { value }) => sum + value, 0);
  }

  /**
   * Estimate a quantile of a histogram, as Prometheus does: evenly within its bucket.
   *
   * @param {string} name
   * @param {number} share
   * @param {Labels} [labels]
   */
  quantile(name, share, labels = {}) {
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const { labels: own, value } of this.#with(`${name}_bucket`, labels)) {
      const bound = own["le"] === "+Inf" ? Infinity : Number(own["le"]);
      counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    const buckets = [...counts].sort(([a], [b]) => a - b);
    const wanted = (buckets.at(-1)?.[1] ?? 0) * share;
    if (!wanted) return null;
    let [low, below] = [0, 0];
    for (const [bound, count] of buckets) {
      if (count >= wanted) {
        if (bound === Infinity) return low;
        return low + ((bound - low) * (wanted - below)) / (count - below || 1);
      }
      [low, below] = [bound, count];
    }
    return low;
  }

  /**
   * @param {string} name
   * @param {Labels} labels
   */
  #with(name, labels) {
    const wanted = Object.entries(labels);
    return this.labelled(name).filter((one) =>
      wanted.every(([key, value]) => one.labels[key] === value),
    );
  }
}

/** @param {string} text */
export const parse = (text) => new Metrics(text, Date.now());

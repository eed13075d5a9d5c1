# SPDX-License-Identifier: Apache-2.0
"""Words and texts in twelve scripts, for tests of search."""

from typing import Final

from hypothesis import strategies as st

SCRIPTS: Final = {
    "latin": ["straße", "école", "ﬁnd", "ＷＩＤＥ", "naïve", "Ǆ"],
    "greek": ["Ὀδυσσεύς", "λόγος", "ΐδιος"],
    "cyrillic": ["Привет", "ёлка", "й"],
    "hebrew": ["שָׁלוֹם", "ספר"],
    "arabic": ["مرحبا", "ﷺ", "می‌خواهم"],
    "hindi": ["हिन्दी", "क्षत्रिय", "में"],
    "thai": ["สวัสดีครับ", "น้ำ"],
    "chinese": ["東京都", "中文字", "㈱"],
    "japanese": ["ひらがな", "ｶﾀｶﾅ", "がぎ"],
    "korean": ["한국어를", "각", "ㄱ"],
    "khmer": ["ភាសាខ្មែរ", "ក"],
    "emoji": ["🎉👍🏽", "👨‍👩‍👧", "🇩🇪", "☺️"],
}
"""Some words of each script, with the characters that are hard to normalise."""

words: Final = st.one_of(
    st.sampled_from([word for each in SCRIPTS.values() for word in each]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=5),
)
texts: Final = st.lists(
    st.tuples(words, st.sampled_from(["", " ", ", ", "-", "\n", '"'])), max_size=6
).map(lambda parts: "".join(word + gap for word, gap in parts))

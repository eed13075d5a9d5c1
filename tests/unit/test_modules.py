# SPDX-License-Identifier: Apache-2.0
"""Modules for browsers: what is stripped and what is not, and modules joined into one."""

import pytest

from tidings.api.modules import ModuleError, bundle, strip


@pytest.mark.parametrize(
    ("source", "stripped"),
    [
        ("  a();  // why\n\n\n  b();\n", "a();\nb();\n"),
        ("/** @type {x} */\nconst a = 1; /* one */ b();", "const a=1;b();\n"),
        ("a = 1 /* two\nlines */ b = 2", "a=1\nb=2\n"),
        ("let a/**/=/**/1", "let a=1\n"),
        ("a = b + +c - -d < ! --e", "a=b + +c - -d < ! --e\n"),
        ("if (a) { b(c, [d]) } else return [e]", "if(a){b(c,[d])}else return[e]\n"),
        ("(a) => b ?.5 : c ?? d", "(a)=>b?.5:c??d\n"),
        ("a='it\\'s  // no comment' + \"/* nor  this */\"", None),
        ("a = `//\n   kept\n` // not", "a=`//\n   kept\n`\n"),
        ("a=`${b?`// ${{c:{}}}  z`:'}'}  /* d */`", None),
        ("a = `$ {b} $${c}` // not", "a=`$ {b} $${c}`\n"),
        ("a = /[/'] \\/ \"/.test(b) // not", "a=/[/'] \\/ \"/.test(b)\n"),
        ("a = b / c // d / e", "a=b / c\n"),
        ("a=(b)/ 2 + c[0]/ 2 + {}/ 2 // '", "a=(b)/ 2 + c[0]/ 2 +{}/ 2\n"),
        ("a = 'b' / 2 // '", "a='b' / 2\n"),
        ("a=`${/`'/.test(b)}`", None),
        ("return /'/.test(a) // '", "return /'/.test(a)\n"),
        ("a = b.of / 2 // '", "a=b.of / 2\n"),
        ("a = (b) => /'/ // '", "a=(b)=>/'/\n"),
        ("a\n++b", None),
        ("a // at the very end", "a\n"),
        ("f(\n  a,\n  [\n    b,\n  ],\n);\ng({\n  c,\n});", "f(a,[b]);\ng({c});\n"),
        ("if (a) {\n  b();\n}\nfor (;;) { c('d'); }", "if(a){b()}\nfor(;;){c('d')}\n"),
        ("a = [\n  `b`,\n];", "a=[`b`];\n"),
        ("if (a) {\n  b()\n}\n[c].d()", "if(a){b()}\n[c].d()\n"),
        ("a = [b, ,\n]; c = [,\n]", "a=[b,,];c=[,]\n"),
    ],
)
def test_only_comments_and_indentation_go(source: str, stripped: str | None) -> None:
    assert strip(source) == (f"{source}\n" if stripped is None else stripped)


@pytest.mark.parametrize("source", ["/* a", "a = 'b", "a = `b", "a = `${b", 'a = "b\n"', "a = /b"])
def test_what_has_no_end_is_an_error(source: str) -> None:
    with pytest.raises(ModuleError):
        strip(source)


MODULES = {
    "app/app.js": """
        // What a page loads.
        import "../lib/first.js";
        import {
          one,
          two as zwei,
        } from "../lib/numbers.js";
        import * as all from "../lib/numbers.js";
        export const sum = one + zwei;
        export { all as everything };
    """.replace("\n        ", "\n"),
    "lib/first.js": "globalThis.first = true;\n",
    "lib/numbers.js": (
        'import { unit } from "./unit.js";\n'
        "export const one = unit;\nconst two = 2 * unit;\nexport { two };\n"
        "export function f() {}\nexport async function g() {}\nexport class C {}\n"
    ),
    "lib/unit.js": "export const unit = 1;\n",
    "lib/all.js": 'export { one, two as deux } from "./numbers.js";\n',
    "lib/circle.js": 'import { a } from "./round.js";\nexport const b = a;\n',
    "lib/round.js": 'import { b } from "./circle.js";\nexport const a = b;\n',
}


def test_a_module_comes_after_what_it_imports() -> None:
    assert bundle(MODULES, "app/app.js") == (
        "const m0_=(()=>{\nglobalThis.first=true;\nreturn{};\n})();\n"
        "const m1_=(()=>{\nconst unit=1;\nreturn{unit};\n})();\n"
        "const m2_=(()=>{\nconst{unit}=m1_;\nconst one=unit;\nconst two=2 * unit;\n\n"
        "function f(){}\nasync function g(){}\nclass C{}\n"
        "return{two,one,f,g,C};\n})();\n"
        "\nconst{one,two:zwei}=m2_;\nconst all=m2_;\nconst sum=one + zwei;\n\n"
        "export{all as everything,sum};\n"
    )


def test_what_is_exported_again_is_exported() -> None:
    joined = bundle(MODULES, "lib/all.js")
    assert joined.endswith("const{one,two:deux}=m1_;\nexport{one,deux};\n")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('import a from "./unit.js";', "import a from"),
        ('import { a } from "elsewhere";', "not a file of ours"),
        ('import { a } from "./nowhere.js";', "there is no module lib/nowhere.js"),
        ("export default 1;", "export default"),
        ("export let a = 1;", "export let"),
        ("export const { a } = b;", "export const{"),
        ('export * from "./unit.js";', "export *"),
        ('import { a } from "./round.js";', "lib/round.js imports itself"),
    ],
)
def test_any_other_form_is_an_error(source: str, complaint: str) -> None:
    with pytest.raises(ModuleError, match=complaint.replace("*", r"\*").replace("{", r"\{")):
        bundle({**MODULES, "lib/entry.js": source}, "lib/entry.js")


def test_a_call_of_import_stays() -> None:
    source = 'const german=()=>\nimport("./german.js");\nimport.meta.url;\n'
    assert bundle({"a.js": source}, "a.js") == source

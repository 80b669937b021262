"""Modules joined to one script."""

import pytest

from profkit.report.scripts import joined


def folder(root, **modules):
    for name, text in modules.items():
        path = root / (name.replace("__", "/") + ".js")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


def test_each_module_comes_once_and_after_what_it_imports(tmp_path):
    script = joined(
        folder(
            tmp_path,
            page='import { one } from "./parts/a.js";\nimport { b } from "./b.js";\none(b);\n',
            parts__a='import { b } from "../b.js";\nconst own = 1;\nexport function one() {}\n',
            b="const own = 2;\nexport const b = 3;\n",
        ),
        "page.js",
    )
    assert script.count("const own = 2;") == 1
    places = [script.index(text) for text in ("const own = 2;", "function one()", "one(b);")]
    assert places == sorted(places)
    assert "const {b}=$0;const own = 1;" in script
    assert "const {one}=$1;" in script
    assert "export" not in script
    assert "import" not in script


def test_comments_stay_behind_and_texts_that_look_like_them_do_not(tmp_path):
    text = """// About it.

/**
 * @param {number} x
 * @returns {string}
 */
export function named(x) {
  // Why.
  const found = /** @type {string} */ ("http://a.b/*c*/");
  return found + x; // beside;
}
"""
    script = joined(folder(tmp_path, page=text), "page.js")
    assert script.splitlines()[2:-2] == [
        "const $0 = (() => {",
        'function named(x) {const found = ("http://a.b/*c*/");',
        "return found + x; // beside;",
        "}",
        "return {named};",
    ]


@pytest.mark.parametrize(
    "text",
    ['import all from "./b.js";\n', "export default 1;\n", 'import * as b from "./b.js";\n'],
)
def test_other_forms_of_import_and_export_are_refused(tmp_path, text):
    with pytest.raises(ValueError, match=r"page\.js: only named imports and exports"):
        joined(folder(tmp_path, page=text, b="export const b = 3;\n"), "page.js")


def test_a_literal_of_several_lines_is_refused_for_its_indentation_would_go(tmp_path):
    with pytest.raises(ValueError, match=r"page\.js: a template literal must end on its line"):
        joined(folder(tmp_path, page="const a = `one\n  two`;\n"), "page.js")


def test_modules_in_a_circle_are_refused(tmp_path):
    a, b = ('import { b } from "./b.js";\n', 'import { a } from "./a.js";\n')
    with pytest.raises(ValueError, match=r"a\.js: imports itself by way of"):
        joined(folder(tmp_path, a=a, b=b), "a.js")

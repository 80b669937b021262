// Elements with their attributes and children; text stays text.

const SVG = "http://www.w3.org/2000/svg";
const TYPING_MS = 100;

/** @typedef {Record<string, string | number>} Attributes */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * Puts text into the element of a place: the one that it has, if it is of this kind.
 * @param {HTMLElement} place
 * @param {"a" | "button" | "span" | ""} tag empty for the place itself
 * @param {string} text
 * @returns {HTMLElement} the element
 */
export function write(place, tag, text) {
  const had = /** @type {HTMLElement | null} */ (place.firstElementChild);
  const fits = place.childNodes.length === 1 && (had?.localName ?? "") === tag;
  const into = tag ? (fits && had) || element(tag) : place;
  if (fits && into.firstChild) into.firstChild.nodeValue = text;
  else {
    into.textContent = text;
    if (tag) place.replaceChildren(into);
  }
  return into;
}

/**
 * A button with its action.
 * @param {string} text
 * @param {Attributes} attributes
 * @param {() => void} act
 */
export function action(text, attributes, act) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

/**
 * A menu, which says what was chosen.
 * @param {Attributes} attributes
 * @param {[string, string][]} options value and text
 * @param {(value: string) => void} choose
 */
export function menu(attributes, options, choose) {
  const made = element("select", attributes,
    ...options.map(([value, text]) => new Option(text, value)));
  made.addEventListener("change", () => choose(made.value));
  return made;
}

/**
 * A place to search in, which says what was typed once the reader pauses.
 * @param {string} title what is searched
 * @param {string} placeholder
 * @param {(text: string) => void} search
 */
export function searchBox(title, placeholder, search) {
  const made = element("input", { type: "search", placeholder, "aria-label": title,
    autocomplete: "off", spellcheck: "false" });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  made.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => search(made.value.trim()), TYPING_MS);
  });
  return made;
}

/**
 * The element that the page's own templates must have.
 * @param {string} id
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`this page has no #${id}`);
  return found;
}

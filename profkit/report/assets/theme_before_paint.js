// Before the first paint, so that a page remembered as dark does not flash white.
(() => {
  let remembered = null;
  try {
    remembered = localStorage.getItem("profkit-theme");
  } catch {
    // Some browsers give pages from files no storage: the system's choice stays.
  }
  if (remembered === "dark" || remembered === "light") {
    document.documentElement.dataset.theme = remembered;
  }
})();

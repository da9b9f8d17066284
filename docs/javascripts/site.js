// What scrolls within itself can be reached by keyboard, and the search dialog has a name.
function refresh() {
  for (const element of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (element.scrollWidth <= element.clientWidth) element.removeAttribute("tabindex");
    else if (element.tabIndex !== 0) element.tabIndex = 0;
  }
}
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
addEventListener("load", refresh);
addEventListener("resize", refresh);
document.addEventListener("toggle", refresh, true); // what a closed <details> contains has no width
// Material removes it on devices that cannot hover, such as a narrow screen with a keyboard.
new MutationObserver(refresh).observe(document.body, { attributeFilter: ["tabindex"], subtree: true });

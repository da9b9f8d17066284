"use strict";
for (const filter of document.querySelectorAll(".filter")) {
  const list = document.getElementById(filter.dataset.of);
  const rows = [...list.querySelectorAll("[data-row]")].filter((row) => !row.parentElement.closest("[data-row]"));
  const pages = [...list.querySelectorAll(".page")];
  const [input, select, output] = ["input", "select", "output"].map((name) => filter.querySelector(name));
  let texts = null;
  const apply = () => {
    texts ??= rows.map((row) => row.textContent.toLowerCase());
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = select ? select.value : "";
    let shown = 0;
    rows.forEach((row, index) => {
      const matches = (!chosen || row.dataset.row === chosen) && words.every((word) => texts[index].includes(word));
      row.hidden = !matches;
      shown += matches;
    });
    const active = words.length > 0 || chosen !== "";
    pages.forEach((page, index) => {
      const some = page.querySelector("[data-row]:not([hidden])") !== null;
      page.hidden = !some;
      page.open = active ? some && shown <= 2000 : index === 0;
    });
    output.textContent = active ? `${shown} of ${rows.length}` : "";
  };
  input.addEventListener("input", apply);
  if (select) select.addEventListener("change", apply);
  filter.hidden = false;
}
const open = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let place = target; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", open);
open();

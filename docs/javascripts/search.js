// The search takes a word with a leading hyphen as one to leave out; here it is an option of the command line.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".md-search__input")) target.value = target.value.replace(/(^|\s)-+/g, "$1");
}, true);

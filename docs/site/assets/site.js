// Tables that scroll can be scrolled with the keyboard.
const makeTablesReachable = () => {
  let number = 0;
  for (const wrapper of document.querySelectorAll(".md-typeset__scrollwrap")) {
    number += 1;
    if (wrapper.scrollWidth > wrapper.clientWidth) {
      wrapper.tabIndex = 0;
      wrapper.setAttribute("role", "region");
      wrapper.setAttribute("aria-label", `Table ${number}`);
    }
  }
};

// The filter of the rules page: hides the rows that do not contain every word that was typed.
const makeRulesFilter = () => {
  const input = document.getElementById("rule-filter");
  if (!input) return;
  const count = document.getElementById("rule-count");
  const rows = [...document.querySelectorAll("article table tbody tr")];
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    for (const table of document.querySelectorAll("article table")) {
      const empty = [...table.querySelectorAll("tbody tr")].every((row) => row.hidden);
      const wrapper = table.closest(".md-typeset__scrollwrap") || table;
      wrapper.hidden = empty;
      const heading = wrapper.previousElementSibling;
      if (heading && heading.tagName === "H2") heading.hidden = empty;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rules` : "";
  };
  input.addEventListener("input", apply);
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) input.value = asked;
  apply();
};

window.addEventListener("load", () => {
  makeRulesFilter();
  makeTablesReachable();
});

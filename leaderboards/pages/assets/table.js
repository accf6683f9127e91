// Sorts, filters and ticks the rows of a ranking. It computes nothing: every cell brings the
// number it is sorted by, and a cell without one goes last in either direction.
"use strict";

(() => {
  const table = document.querySelector(".ranking");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const chips = [...document.querySelectorAll(".chip")];
  const groups = [...new Set(chips.map((chip) => chip.dataset.group))];
  const count = document.querySelector(".count");
  const empty = document.querySelector(".empty");
  const reset = document.querySelector(".reset");
  const boxes = [...document.querySelectorAll(".pick input")];
  const bar = document.querySelector(".compare-bar");
  const link = document.querySelector(".share-link");
  const start = { sort: "rank", direction: "ascending", picked: [] };
  let { sort, direction } = start;
  let picked = [];

  const columnOf = (key) => headers.find((header) => header.dataset.key === key);
  const chosen = (group) =>
    chips.filter((chip) => chip.dataset.group === group && chip.getAttribute("aria-pressed") === "true")
      .map((chip) => chip.dataset.value);

  function order() {
    const column = columnOf(sort).cellIndex;
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => {
      const text = row.cells[column].dataset.v;
      return text === undefined ? null : Number(text);
    };
    // From the order of the page each time, so that ties never depend on what was clicked before.
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x - y);
    });
    body.append(...sorted);
    for (const header of headers) {
      if (header.dataset.key) header.setAttribute("aria-sort", header.dataset.key === sort ? direction : "none");
    }
    table.classList.toggle("by-rank", sort === start.sort && direction === start.direction);
  }

  function filter() {
    let shown = 0;
    const wanted = groups.map((group) => [group, chosen(group)]);
    for (const row of rows) {
      row.hidden = !wanted.every(([group, values]) => !values.length || values.includes(row.dataset[group]));
      shown += !row.hidden;
    }
    const all = rows.length;
    count.textContent = shown === all ? count.dataset.all : `${shown} of ${count.dataset.all}`;
    empty.hidden = shown > 0;
  }

  function pick() {
    if (!bar) return; // a single entry: there is nothing to compare it with
    const names = picked.map((id) => rows.find((row) => row.dataset.id === id).dataset.name);
    for (const box of boxes) box.checked = picked.includes(box.value);
    bar.hidden = !picked.length;
    bar.querySelector("p").textContent =
      picked.length === 2 ? `${names[0]} and ${names[1]}` : `${names[0] ?? ""}: tick one more to compare`;
    const go = bar.querySelector("a");
    go.hidden = picked.length < 2;
    if (picked.length === 2) go.href = `${bar.dataset.folder}${[...picked].sort().join("-")}.html`;
  }

  function show() {
    order();
    filter();
    pick();
    const state = { sort: sort === start.sort ? null : sort, direction: direction === first(sort) ? null : direction,
      compare: picked.join(",") };
    for (const group of groups) state[group] = chosen(group).join(",");
    State.set(state);
    reset.disabled = !Object.values(state).some(Boolean);
    link.hidden = true;
  }

  const first = (key) => columnOf(key).dataset.first;

  function read() {
    const key = State.get("sort");
    sort = key && columnOf(key) ? key : start.sort;
    const way = State.get("direction");
    direction = way === "ascending" || way === "descending" ? way : first(sort);
    for (const chip of chips) {
      const values = (State.get(chip.dataset.group) ?? "").split(",");
      chip.setAttribute("aria-pressed", String(values.includes(chip.dataset.value)));
    }
    groups.forEach(allIsOff);
    const known = boxes.map((box) => box.value);
    picked = [...new Set((State.get("compare") ?? "").split(","))].filter((id) => known.includes(id)).slice(0, 2);
  }

  // All of a group chosen is none chosen: either way every row is wanted.
  function allIsOff(group) {
    const mine = chips.filter((chip) => chip.dataset.group === group);
    if (mine.every((chip) => chip.getAttribute("aria-pressed") === "true")) {
      for (const chip of mine) chip.setAttribute("aria-pressed", "false");
    }
  }

  function clear() {
    ({ sort, direction } = start);
    picked = [];
    for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    show();
  }

  for (const header of headers.filter((one) => one.dataset.key)) {
    const button = document.createElement("button");
    button.type = "button";
    const label = header.querySelector(".label");
    label.replaceWith(button);
    button.append(...label.childNodes);
    button.addEventListener("click", () => {
      const key = header.dataset.key;
      const other = direction === "ascending" ? "descending" : "ascending";
      direction = key === sort ? other : first(key);
      sort = key;
      show();
    });
  }
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      allIsOff(chip.dataset.group);
      show();
    });
  }
  for (const box of boxes) {
    box.addEventListener("change", () => {
      picked = picked.filter((id) => id !== box.value);
      if (box.checked) picked = [...picked, box.value].slice(-2);
      show();
    });
  }
  for (const button of document.querySelectorAll(".reset, .empty button, .compare-bar button")) {
    button.addEventListener("click", () => {
      if (button.closest(".compare-bar")) {
        picked = [];
        show();
      } else clear();
    });
  }
  document.querySelector(".share").addEventListener("click", async () => {
    link.hidden = false;
    link.value = location.href;
    link.select();
    try {
      await navigator.clipboard.writeText(location.href);
      count.textContent = "Link copied";
    } catch { /* not allowed here: the link stands selected in the field */ }
  });
  addEventListener("popstate", () => { read(); show(); });
  read();
  show();
})();

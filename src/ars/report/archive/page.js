"use strict";
(() => {
  const form = document.getElementById("choose");
  const status = document.getElementById("status");
  const sections = [...document.querySelectorAll(".view, .level")];
  const views = [...document.querySelectorAll(".view")];
  const bounds = [...document.querySelectorAll(".bound")];
  const recipes = [...document.querySelectorAll(".recipe")];
  const parts = ["benchmark", "recipe", "k", "sigma"];
  const names = [...parts, "bound"];

  const radios = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const chosen = (name) => form.querySelector(`input[name="${name}"]:checked`).value;
  const choose = (name, value) => {
    const radio = radios(name).find((one) => one.value === value);
    if (radio) radio.checked = true;
  };

  // Each control offers what exists for the controls before it, and moves to the nearest value that does. Noise levels
  // that the recipe has at other sizes only are shown all the same, disabled.
  function settle() {
    const values = (some, name) => new Set(some.map((view) => view.dataset[name]));
    let left = views, sizes;
    for (const name of parts) {
      if (name === "k") sizes = left;
      const there = values(left, name), known = name === "sigma" ? values(sizes, name) : there;
      for (const radio of radios(name)) {
        radio.disabled = !there.has(radio.value);
        radio.parentElement.hidden = !known.has(radio.value);
        radio.parentElement.title = radio.disabled ? `not run at k = ${chosen("k")}` : "";
      }
      if (!there.has(chosen(name))) {
        const near = (value) => Math.abs(Number(value) - Number(chosen(name))) || 0;
        choose(name, [...there].sort((a, b) => near(a) - near(b))[0]);
      }
      left = left.filter((view) => view.dataset[name] === chosen(name));
    }
    const offered = new Set([...left[0].querySelectorAll(".bound")].map((one) => one.dataset.bound));
    for (const radio of radios("bound")) radio.disabled = offered.size > 0 && !offered.has(radio.value);
    if (offered.size > 0 && !offered.has(chosen("bound"))) choose("bound", [...offered][0]);
  }

  function show() {
    settle();
    for (const section of sections) {
      section.hidden = parts.some((name) => name in section.dataset && section.dataset[name] !== chosen(name));
    }
    for (const bound of bounds) bound.hidden = bound.dataset.bound !== chosen("bound");
    const view = views.find((one) => !one.hidden);
    const label = form.querySelector('input[name="bound"]:checked').parentElement.textContent.trim();
    status.textContent = `Showing ${view.querySelector("h2").textContent}, ${label}`;
  }

  // What is chosen and the recipes that are open, for the address.
  const fragment = (ids) => {
    const open = ids.map((id) => ["open", id]);
    return `#${new URLSearchParams([...names.map((name) => [name, chosen(name)]), ...open])}`;
  };

  // Links to recipes lead to all that their number comes from, and keep what is chosen.
  const links = [...document.querySelectorAll('a[href^="#recipe-"]')].map((link) => {
    const number = link.closest(".seeds") ? null : link.closest("[data-recipes]");
    return [link, number ? number.dataset.recipes.split(" ") : [link.getAttribute("href").slice(1)]];
  });
  const direct = () => {
    for (const [link, ids] of links) link.href = fragment(ids);
  };

  // Recipes that are asked for open, numbered, and those that were asked for before close.
  function open(ids) {
    for (const name of document.querySelectorAll("summary[data-asked]")) {
      name.parentElement.open = false;
      delete name.dataset.asked;
    }
    const asked = recipes.filter((recipe) => ids.includes(recipe.id)).map((recipe) => recipe.querySelector("summary"));
    asked.forEach((name, number) => {
      name.parentElement.open = true;
      name.dataset.asked = asked.length > 1 ? ` (${number + 1} of ${asked.length})` : "";
    });
    if (asked.length === 0) return;
    asked[0].scrollIntoView();
    asked[0].focus({ preventScroll: true });
  }

  function read() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of state) if (names.includes(name)) choose(name, value);
    show();
    direct();
    open([location.hash.slice(1), ...state.getAll("open")]);
  }

  form.addEventListener("change", () => {
    show();
    direct();
    history.replaceState(null, "", fragment([]));
  });

  // A link to where the reader is leads there once more.
  addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && link.hash && link.hash === location.hash) read();
  });

  // The numbers of a row lead to the same recipes: Tab stops at the first, the arrow keys reach the others.
  for (const row of document.querySelectorAll("tr[data-recipes]")) {
    const numbers = [...row.querySelectorAll("td:not(.seeds) a")];
    for (const link of numbers.slice(1)) link.tabIndex = -1;
    row.addEventListener("keydown", (event) => {
      const at = numbers.indexOf(event.target), step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const modified = event.altKey || event.ctrlKey || event.metaKey; // Alt and an arrow are the browser's own
      if (modified || at < 0 || !step || !numbers[at + step]) return;
      numbers[at + step].focus();
      event.preventDefault();
    });
  }

  addEventListener("hashchange", read);
  document.documentElement.classList.add("js");
  read();
})();

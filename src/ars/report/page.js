"use strict";
(() => {
  const form = document.getElementById("choose");
  const status = document.getElementById("status");
  const sections = [...document.querySelectorAll(".view")];
  const views = [...document.querySelectorAll(".view.first")];
  const bounds = [...document.querySelectorAll(".bound")];
  const recipes = [...document.querySelectorAll(".recipe")];
  const names = [...form.querySelectorAll("fieldset")].map((one) => one.dataset.name);
  const parts = names.filter((name) => name !== "bound");

  const radios = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const chosen = (name) => form.querySelector(`input[name="${name}"]:checked`).value;
  const choose = (name, value) => {
    const radio = radios(name).find((one) => one.value === value);
    if (radio) radio.checked = true;
  };

  // Each control offers what exists for the controls before it, and moves to the nearest value that does. Noise levels
  // that exist at other sizes only are shown, but disabled.
  function settle() {
    const values = (some, name) => new Set(some.map((view) => view.dataset[name]));
    let left = views, sizes = views;
    for (const name of parts) {
      if (name === "k") sizes = left;
      const there = values(left, name), known = name === "sigma" ? values(sizes, name) : there;
      for (const radio of radios(name)) {
        radio.disabled = !there.has(radio.value);
        radio.parentElement.hidden = !known.has(radio.value);
        radio.parentElement.title = radio.disabled ? `not run at k = ${chosen("k")}` : "";
      }
      form.querySelector(`[data-name="${name}"]`).hidden = known.size < 2;
      if (!there.has(chosen(name))) {
        const near = (value) => Math.abs(Number(value) - Number(chosen(name))) || 0;
        choose(name, [...there].sort((a, b) => near(a) - near(b))[0]);
      }
      left = left.filter((view) => view.dataset[name] === chosen(name));
    }
    const offered = new Set(left.flatMap((view) => [...view.querySelectorAll(".bound")].map((one) => one.dataset.bound)));
    for (const radio of radios("bound")) radio.disabled = offered.size > 0 && !offered.has(radio.value);
    if (offered.size > 0 && !offered.has(chosen("bound"))) choose("bound", [...offered][0]);
  }

  function show() {
    settle();
    for (const section of sections) {
      section.hidden = parts.some((name) => name in section.dataset && section.dataset[name] !== chosen(name));
    }
    for (const bound of bounds) bound.hidden = bound.dataset.bound !== chosen("bound");
    const label = form.querySelector('input[name="bound"]:checked').parentElement.textContent.trim();
    status.textContent = `Showing ${views.find((one) => !one.hidden).querySelector("h2").textContent}, ${label}`;
  }

  // The address keeps what is chosen and the recipes that are open.
  const fragment = (ids) => {
    const open = ids.map((id) => ["open", id]);
    return `#${new URLSearchParams([...names.map((name) => [name, chosen(name)]), ...open])}`;
  };

  // A row's name leads to the recipes of all its seeds, a seed to its own.
  const links = [...document.querySelectorAll('a[href^="#recipe-"]')].map((link) => {
    const row = link.closest(".seeds") ? null : link.closest("[data-recipes]");
    return [link, row ? row.dataset.recipes.split(" ") : [link.getAttribute("href").slice(1)]];
  });
  const direct = () => {
    for (const [link, ids] of links) link.href = fragment(ids);
  };

  // Recipes that are asked for open, numbered; those that were asked for before close.
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
    asked[0].closest(".recipes").open = true;
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

  addEventListener("hashchange", read);
  document.documentElement.classList.add("js");
  read();
})();

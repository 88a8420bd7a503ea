"use strict";
(() => {
  const form = document.getElementById("choose");
  const status = document.getElementById("status");
  const sections = [...document.querySelectorAll(".view, .level")];
  const views = [...document.querySelectorAll(".view")];
  const bounds = [...document.querySelectorAll(".bound")];
  const parts = ["benchmark", "recipe", "k", "sigma"];

  const radios = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const chosen = (name) => form.querySelector(`input[name="${name}"]:checked`).value;
  const choose = (name, value) => {
    const radio = radios(name).find((one) => one.value === value);
    if (radio) radio.checked = true;
  };

  // Each control offers what exists for the controls before it, and moves to the nearest value that does.
  function settle() {
    let left = views;
    for (const name of parts) {
      const there = new Set(left.map((view) => view.dataset[name]));
      for (const radio of radios(name)) radio.disabled = !there.has(radio.value);
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

  function read() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of state) if ([...parts, "bound"].includes(name)) choose(name, value);
    show();
  }

  form.addEventListener("change", () => {
    show();
    const state = new URLSearchParams([...parts, "bound"].map((name) => [name, chosen(name)]));
    history.replaceState(null, "", `#${state}`);
  });
  // A recipe that is linked to opens; it is not part of the state.
  function open() {
    const recipe = document.getElementById(location.hash.slice(1));
    if (recipe instanceof HTMLDetailsElement) {
      recipe.open = true;
      recipe.scrollIntoView();
    }
  }

  addEventListener("hashchange", () => {
    read();
    open();
  });
  document.documentElement.classList.add("js");
  read();
  open();
})();

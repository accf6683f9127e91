// Turns the list of all steps of an attempt into one step at a time.
"use strict";

for (const attempt of document.querySelectorAll(".attempt")) {
  const frames = [...attempt.querySelectorAll(".frame")];
  const controls = attempt.querySelector(".controls");
  const slider = controls.querySelector("input");
  const output = controls.querySelector("output");
  const [back, play, forth] = controls.querySelectorAll("button");
  const key = attempt.id;
  const last = frames.length - 1;
  let at = 0;
  let timer = null;

  function show(step) {
    at = Math.min(last, Math.max(0, step));
    frames.forEach((frame, i) => { frame.hidden = i !== at; });
    slider.value = at;
    slider.setAttribute("aria-valuetext", `step ${at} of ${last}`);
    output.textContent = `step ${at} of ${last}`;
    back.disabled = at === 0;
    forth.disabled = at === last;
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }

  function go(step) {
    show(step);
    State.set({ [key]: at || null });
  }

  const byHand = (step) => { stop(); go(step); };

  back.addEventListener("click", () => byHand(at - 1));
  forth.addEventListener("click", () => byHand(at + 1));
  slider.addEventListener("input", () => byHand(Number(slider.value)));
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (at === last) go(0);
    play.textContent = "Pause";
    timer = setInterval(() => { go(at + 1); if (at === last) stop(); }, 600);
  });
  attempt.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    const taken = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    if (move === undefined || taken || !attempt.open) return;
    event.preventDefault();
    byHand(move);
  });

  attempt.classList.add("playing");
  const given = Number(State.get(key));
  if (State.get(key) || location.hash === `#${key}`) attempt.open = true;
  show(Number.isInteger(given) ? given : 0);
}

// What a reader has chosen stands in the address, so that a link shows the same again.
"use strict";

const State = {
  get(key) {
    return new URLSearchParams(location.search).get(key);
  },

  set(changes) {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "") query.delete(key);
      else query.set(key, value);
    }
    // Commas and plus signs stay readable.
    const text = query.toString().replaceAll("%2C", ",");
    const target = location.pathname + (text ? `?${text}` : "") + location.hash;
    history.replaceState(null, "", target);
  },
};

// What this browser keeps for the reader: short lists under one name each, with a version.

const VERSION = 1;

export function load(name, otherwise) {
  try {
    const kept = JSON.parse(localStorage.getItem(`watchtower.${name}`));
    return kept?.v === VERSION ? kept.value : otherwise;
  } catch {
    return otherwise;
  }
}

export function save(name, value) {
  try {
    localStorage.setItem(`watchtower.${name}`, JSON.stringify({ v: VERSION, value }));
    return true;
  } catch {
    // Full, or not allowed here: the page works without.
    return false;
  }
}

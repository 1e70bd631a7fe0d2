// What is wrong: one line, and the form for an API key if the server requires one.

const at = (id) => document.getElementById(id);

export function showProblem(problem) {
  at("problem").textContent = problem;
}

/** Show an error, and ask for a key if it is one that a key can solve. */
export function showError(error) {
  at("ask-key").hidden = error.status !== 401;
  showProblem(error.status === 401 && !at("key").value ? "" : error.message);
  if (error.status === 401) at("needed-key").focus();
}

// What the page can do besides, where scripts run; without them everything is there but these buttons.
"use strict";
const status = document.querySelector(".status");
for (const button of document.querySelectorAll(".copy")) {
  const code = button.parentElement.querySelector(".code");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.dataset.code);
    } catch {
      getSelection().selectAllChildren(code);
      if (!document.execCommand("copy")) return;
    }
    status.textContent = button.dataset.copied;
  });
}
for (const button of document.querySelectorAll(".printing")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

--- The page's script: every few seconds it replaces <main> with that of a new answer. Without
-- JavaScript, or with the box unchecked, the page stays as it is.
return [[
(function () {
  var live = document.getElementById("live"), state = document.getElementById("state");
  function put(text) {
    var page = new DOMParser().parseFromString(text, "text/html");
    var next = page.getElementById("main"), main = document.getElementById("main");
    if (!next) { throw new Error("another page"); }
    main.replaceWith(document.importNode(next, true));
    state.textContent = "";
  }
  function load() {
    if (!live.checked || document.hidden) { return; }
    fetch(location.pathname + "?format=html", { cache: "no-store", credentials: "same-origin" })
      .then(function (r) {
        if (!r.ok) { throw new Error(r.status); }
        return r.text();
      }).then(put).catch(function (e) {
        state.textContent = "not refreshed: " + e.message;
      });
  }
  setInterval(load, EVERY);
})();
]]

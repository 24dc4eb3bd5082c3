"use strict";
// Shows the server's OpenAPI documents with Swagger UI. The token stays in this page, and is sent to this server only.
(() => {
  const root = location.pathname.replace(/openapi\/ui\/.*$/, "");
  const token = document.getElementById("token");
  const documents = document.getElementById("documents");
  const message = document.getElementById("message");

  function headers() {
    return token.value ? { Authorization: `Bearer ${token.value}` } : {};
  }

  function show() {
    window.SwaggerUIBundle({
      dom_id: "#ui",
      url: documents.value,
      validatorUrl: null,
      docExpansion: "list",
      defaultModelsExpandDepth: 0,
      tryItOutEnabled: true,
      requestInterceptor: (request) => {
        const url = new URL(request.url, location.href);
        if (url.origin !== location.origin) throw new Error("only this server is asked");
        if (!url.pathname.startsWith(root)) url.pathname = root + url.pathname.slice(1);
        request.url = url.href;
        Object.assign(request.headers, headers());
        return request;
      },
    });
  }

  async function load() {
    message.value = "";
    const answer = await fetch(`${root}openapi/v3`, { headers: { ...headers(), Accept: "application/json" } });
    if (!answer.ok) {
      message.value = answer.status === 401 || answer.status === 403
        ? `${answer.status}: enter a token of somebody who may read it`
        : `${answer.status} ${answer.statusText}`;
      return;
    }
    const { paths } = await answer.json();
    const options = Object.entries(paths).sort(([a], [b]) => a.localeCompare(b)).map(([path, place]) => {
      const option = document.createElement("option");
      option.textContent = path;
      option.value = root + place.serverRelativeURL.slice(1);
      return option;
    });
    documents.replaceChildren(...options);
    documents.disabled = false;
    const first = options.find((option) => /^apis\/[^/]+\/[^/]+$/.test(option.textContent)) ?? options[0];
    if (first) {
      documents.value = first.value;
      show();
    }
  }

  function loadAndTell() {
    load().catch((error) => { message.value = String(error); });
  }

  documents.addEventListener("change", show);
  document.getElementById("bar").addEventListener("submit", (event) => {
    event.preventDefault();
    loadAndTell();
  });
  document.querySelector("#bar button").disabled = false;
  loadAndTell();
})();

// Opens the interactive page over the document that this service serves.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    request.headers["X-REQUEST-ID"] ??= crypto.randomUUID();
    return request;
  },
});

// node real_saml_provider.mjs PORT SLIPWAY_URL KEY CERTIFICATE: a SAML 2.0 identity provider, of samlify.
import { readFileSync } from "node:fs";
import http from "node:http";
import samlify from "samlify";

const [port, slipway, key, certificate] = process.argv.slice(2);
const here = `http://127.0.0.1:${port}`;
samlify.setSchemaValidator({ validate: async () => "not checked here" });
const attributes = ["username", "groups"];
const statement = '<saml:AuthnStatement AuthnInstant="{IssueInstant}"><saml:AuthnContext><saml:AuthnContextClassRef>'
  + "urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>";
const idp = samlify.IdentityProvider({
  entityID: `${here}/metadata`,
  privateKey: readFileSync(key), signingCert: readFileSync(certificate),
  isAssertionEncrypted: false,
  nameIDFormat: ["urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"],
  singleSignOnService: [{ Binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect", Location: `${here}/sign-on` }],
  loginResponseTemplate: {
    context: samlify.SamlLib.defaultLoginResponseTemplate.context.replace("{AuthnStatement}", statement),
    attributes: attributes.map((name) => ({ name, valueTag: name, nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic", valueXsiType: "xs:string" })),
  },
});

async function answer(asked, who) {
  const sp = samlify.ServiceProvider({ metadata: await (await fetch(`${slipway}/accounts/saml/metadata/`)).text() });
  const request = await idp.parseLoginRequest(sp, "redirect", { query: { SAMLRequest: asked } });
  const fill = (template) => {
    const now = new Date(), soon = new Date(now.getTime() + 300_000);
    const id = `_${crypto.randomUUID()}`, acs = sp.entityMeta.getAssertionConsumerService("post");
    return { id, context: samlify.SamlLib.replaceTagsByValue(template, {
      ID: id, AssertionID: `_${crypto.randomUUID()}`, Destination: acs, Audience: sp.entityMeta.getEntityID(),
      AssertionConsumerServiceURL: acs, SubjectRecipient: acs, Issuer: idp.entityMeta.getEntityID(),
      IssueInstant: now.toISOString(), StatusCode: "urn:oasis:names:tc:SAML:2.0:status:Success",
      ConditionsNotBefore: now.toISOString(), ConditionsNotOnOrAfter: soon.toISOString(),
      SubjectConfirmationDataNotOnOrAfter: soon.toISOString(), InResponseTo: request.extract.request.id,
      NameIDFormat: "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", NameID: `id-of-${who}`,
      attrUsername: who, attrGroups: "ml-eu",
    }) };
  };
  return idp.createLoginResponse(sp, request, "post", {}, fill);
}

http.createServer(async (request, response) => {
  const url = new URL(request.url, here);
  if (url.pathname === "/metadata") {
    response.end(idp.getMetadata());
  } else if (url.pathname === "/sign-on") {
    response.setHeader("Content-Type", "text/html");
    response.end(`<form action="/login"><input name="who"><input type="hidden" name="asked" value="${url.searchParams.get("SAMLRequest")}"><button>Log in</button></form>`);
  } else if (url.pathname !== "/login") {
    response.writeHead(404).end();
  } else {
    const { entityEndpoint, context } = await answer(url.searchParams.get("asked"), url.searchParams.get("who"));
    response.setHeader("Content-Type", "text/html");
    response.end(`<form method="post" action="${entityEndpoint}"><input type="hidden" name="SAMLResponse" value="${context}"></form><script>document.forms[0].submit()</script>`);
  }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));

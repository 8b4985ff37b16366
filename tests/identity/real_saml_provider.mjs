// node real_saml_provider.mjs PORT SLIPWAY_URL KEY CERTIFICATE [sealed]: a SAML 2.0 identity provider, of samlify.
// "sealed": it wants signed requests, encrypts what it says, and ends its session when asked by a signed request.
import { readFileSync } from "node:fs";
import http from "node:http";
import samlify from "samlify";

const [port, slipway, key, certificate, sealed] = process.argv.slice(2);
const redirect = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
const here = `http://127.0.0.1:${port}`;
samlify.setSchemaValidator({ validate: async () => "not checked here" });
const attributes = ["username", "groups"];
const statement = '<saml:AuthnStatement AuthnInstant="{IssueInstant}"><saml:AuthnContext><saml:AuthnContextClassRef>'
  + "urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>";
const idp = samlify.IdentityProvider({
  entityID: `${here}/metadata`,
  privateKey: readFileSync(key), signingCert: readFileSync(certificate),
  isAssertionEncrypted: Boolean(sealed), wantAuthnRequestsSigned: Boolean(sealed), wantLogoutRequestSigned: Boolean(sealed),
  messageSigningOrder: "encrypt-then-sign", requestSignatureAlgorithm: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
  dataEncryptionAlgorithm: "http://www.w3.org/2001/04/xmlenc#aes256-cbc", keyEncryptionAlgorithm: "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
  nameIDFormat: ["urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"],
  singleSignOnService: [{ Binding: redirect, Location: `${here}/sign-on` }],
  singleLogoutService: sealed ? [{ Binding: redirect, Location: `${here}/sign-out` }] : [],
  loginResponseTemplate: {
    context: samlify.SamlLib.defaultLoginResponseTemplate.context.replace("{AuthnStatement}", statement),
    attributes: attributes.map((name) => ({ name, valueTag: name, nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic", valueXsiType: "xs:string" })),
  },
});

const ended = [];
const partner = async () => samlify.ServiceProvider({ wantLogoutResponseSigned: true, metadata: await (await fetch(`${slipway}/accounts/saml/metadata/`)).text() });
// What samlify checks a signature of: the query as it came, without the signature.
function redirected(query) {
  const sent = new URLSearchParams(query);
  const order = ["SAMLRequest", "RelayState", "SigAlg"];
  const parts = query.split("&");
  const octetString = order.flatMap((name) => parts.filter((part) => part.startsWith(`${name}=`))).join("&");
  return { query: Object.fromEntries(sent), octetString };
}

async function answer(asked, who) {
  const sp = await partner();
  const request = await idp.parseLoginRequest(sp, "redirect", redirected(asked));
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
  return idp.createLoginResponse(sp, request, "post", {}, fill, Boolean(sealed));
}

http.createServer(async (request, response) => {
  const url = new URL(request.url, here);
  if (url.pathname === "/metadata") {
    response.end(idp.getMetadata());
  } else if (url.pathname === "/sign-on") {
    response.setHeader("Content-Type", "text/html");
    response.end(`<form action="/login"><input name="who"><input type="hidden" name="asked" value="${url.search.slice(1).replaceAll("&", "&amp;")}"><button>Log in</button></form>`);
  } else if (url.pathname === "/sign-out") {
    const sp = await partner();
    const asked = await idp.parseLogoutRequest(sp, "redirect", redirected(url.search.slice(1)));
    ended.push(asked.extract.nameID);
    const answered = idp.createLogoutResponse(sp, asked, "redirect", "");
    response.writeHead(302, { Location: answered.context }).end();
  } else if (url.pathname === "/test-ended") {
    response.end(JSON.stringify(ended));
  } else if (url.pathname !== "/login") {
    response.writeHead(404).end();
  } else {
    const { entityEndpoint, context } = await answer(url.searchParams.get("asked"), url.searchParams.get("who"));
    response.setHeader("Content-Type", "text/html");
    response.end(`<form method="post" action="${entityEndpoint}"><input type="hidden" name="SAMLResponse" value="${context}"></form><script>document.forms[0].submit()</script>`);
  }
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));

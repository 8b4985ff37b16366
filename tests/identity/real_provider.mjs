// node provider.mjs PORT CLIENT_URL: an OpenID Connect provider that keeps everything in memory.
import { Provider } from "oidc-provider";
import http from "node:http";

const [port, slipway] = process.argv.slice(2);
const dropped = new Set();
const groups = new Map();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "slipway", client_secret: "provider-secret",
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
    redirect_uris: [`${slipway}/accounts/oidc/sso/login/callback/`],
    post_logout_redirect_uris: [`${slipway}/accounts/signed-out/`],
    backchannel_logout_uri: `${slipway}/accounts/oidc/sso/backchannel-logout/`,
    backchannel_logout_session_required: true,
    token_endpoint_auth_method: "client_secret_post",
  }],
  claims: { openid: ["sub", "groups"], profile: ["preferred_username", "name"], email: ["email"] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  pkce: { required: () => true },
  cookies: { keys: ["a key of the tests"] },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  async findAccount(ctx, id) {
    if (dropped.has(id)) return undefined;
    return { accountId: id, claims: () => ({ sub: id, preferred_username: id, name: id, email: `${id}@example.org`, groups: groups.get(id) ?? [] }) };
  },
});
const answer = provider.callback();
http.createServer((request, response) => {
  const [, word, who, ...names] = request.url.split("/");
  if (word === "test-drop") { dropped.add(who); response.end(); }
  else if (word === "test-groups") { groups.set(who, names); response.end(); }
  else answer(request, response);
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));

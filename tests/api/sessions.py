"""What the tests of sessions share.

    with sessions.Session(service, strategy="pool") as session: session.execute("print(1)")
"""
import harness

PLACES = [("per_session", "shared"), ("per_session", "isolated"), ("per_execution", "shared"),
          ("per_execution", "isolated"), ("pool", "isolated")]
SHARED = [place for place in PLACES if place[1] == "shared"]
ISOLATED = [place for place in PLACES if place[1] == "isolated"]
ISOLATIONS = ["container"] + ["vm"] * harness.HAS_KVM
NOBODY = "00000000-0000-4000-8000-000000000000"


class Session:
    """One that is opened now, and deleted at the end if it is still there."""

    def __init__(self, client, **fields):
        self.client = client
        reply = client.post("/v1/sessions", fields)
        assert reply.status == 201, reply
        self.opened = reply.json()
        self.id = self.opened["session_id"]
        self.path = f"/v1/sessions/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.delete().status in (204, 404)

    def get(self, below=""):
        return self.client.get(self.path + below)

    def post(self, below, body=None):
        return self.client.post(self.path + below, body)

    def put(self, below, body):
        return self.client.put(self.path + below, body)

    def patch(self, body):
        return self.client.patch(self.path, body)

    def delete(self, below=""):
        return self.client.delete(self.path + below)

    def execute(self, code, **fields):
        reply = self.post("/execute", {"code": code, "timeout_ms": 30000, **fields})
        assert reply.status == 200, reply
        return reply.json()

    def bash(self, cmd, **fields):
        reply = self.post("/bash", {"cmd": cmd, **fields})
        assert reply.status == 200, reply
        return reply.json()

    def state(self):
        reply = self.get()
        assert reply.status == 200, reply
        return reply.json()

    def files(self, query=""):
        """{path: size_bytes} of its regular files"""
        reply = self.get("/files" + query)
        assert reply.status == 200, reply
        return {file["path"]: file["size_bytes"] for file in reply.json()["files"]
                if file["kind"] == "file"}

    def wait_running(self):
        harness.wait_until(lambda: self.state()["state"] == "running", "a run goes on in the session")


def refused(client, status, **fields):
    """Opens a session that is refused; what that says."""
    reply = client.post("/v1/sessions", fields)
    assert reply.status == status, reply
    return reply.detail()

"""A server that answers each of its three clients on a thread of its own, perhaps once warm."""

import json
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with torch.inference_mode():
            body = json.dumps(model(torch.ones(4, 64)).shape).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about):
        pass


if sys.argv[2:]:
    with torch.inference_mode():
        model(torch.ones(4, 64))
server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
serving = threading.Thread(target=server.serve_forever)
serving.start()
clients = [HTTPConnection("127.0.0.1", server.server_port) for _ in range(3)]
for _ in range(int(sys.argv[1])):
    for client in clients:
        client.request("GET", "/")
        print(json.load(client.getresponse()))
server.shutdown()
serving.join()

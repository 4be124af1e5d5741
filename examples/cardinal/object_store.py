"""Objects behind HTTP, in memory: what `HttpStore` talks to where there is no S3."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class ObjectStore:
    """`app` serves `/BUCKET` (the list) and `/BUCKET/NAME`."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}
        path = "/{bucket}/{name}"
        self.app = Starlette(
            routes=[
                Route("/{bucket}", self._list, methods=["GET"]),
                Route(path, self._put, methods=["PUT"]),
                Route(path, self._get, methods=["GET"]),
                Route(path, self._delete, methods=["DELETE"]),
            ]
        )

    async def _list(self, request: Request) -> Response:
        bucket = request.path_params["bucket"]
        return JSONResponse(sorted(name for where, name in self.kept if where == bucket))

    async def _put(self, request: Request) -> Response:
        self.kept[_key(request)] = await request.body()
        return Response(status_code=201)

    async def _get(self, request: Request) -> Response:
        found = self.kept.get(_key(request))
        return Response(status_code=404) if found is None else Response(found)

    async def _delete(self, request: Request) -> Response:
        return Response(status_code=404 if self.kept.pop(_key(request), None) is None else 204)


def _key(request: Request) -> tuple[str, str]:
    return request.path_params["bucket"], request.path_params["name"]

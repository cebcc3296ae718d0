"""The baseline on Redis: redis-py, with the row, the owner's list and the expiry of a task, and versions compared.

`NaiveRedis` uses it as its documents do, a command at a time; `BestRedis` makes one trip an operation. Neither tells
anybody of what has changed, nor keeps what workers look for, as our store does.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis
from redis.exceptions import WatchError

from coatcheck.stores.codec import Codec
from coatcheck.stores.columns import microseconds
from coatcheck.task import Task

_REPLACE = """
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'status', ARGV[3], 'owner', ARGV[4], 'body', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[6])
return 1
"""


class NaiveRedis:
    """A create takes three trips; a replace WATCH, a read, then MULTI; a get HGETALL."""

    def __init__(self, address: str, prefix: str) -> None:
        self._codec, self._prefix = Codec(), prefix
        self._redis: Any = Redis.from_url(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._redis.aclose()

    async def insert(self, task: Task) -> Task:
        key = self._key(task.id)
        await self._redis.hset(key, mapping=self._fields(task))
        await self._redis.zadd(self._owners_list(task), {task.id: microseconds(task.created_at)})
        await self._redis.pexpireat(key, _expiry(task))
        return task

    async def get(self, task_id: str) -> Task | None:
        fields = await self._redis.hgetall(self._key(task_id))
        return self._codec.load(fields[b"body"], task_id, fields[b"owner"].decode()) if fields else None

    async def replace(self, task: Task) -> bool:
        key = self._key(task.id)
        async with self._redis.pipeline(transaction=True) as pipe:
            try:
                await pipe.watch(key)
                if await pipe.hget(key, "version") != str(task.version - 1).encode():
                    return False
                pipe.multi()
                pipe.hset(key, mapping=self._fields(task))
                pipe.pexpireat(key, _expiry(task))
                await pipe.execute()
            except WatchError:
                return False
        return True

    def _key(self, task_id: str) -> str:
        return f"{self._prefix}:task:{task_id}"

    def _owners_list(self, task: Task) -> str:
        return f"{self._prefix}:owner:{task.owner}"

    def _fields(self, task: Task) -> dict[str, Any]:
        return {
            "version": task.version,
            "status": task.status.value,
            "owner": task.owner,
            "body": self._codec.dump(task),
        }


class BestRedis(NaiveRedis):
    """One trip an operation: a pipeline, a script, and no field that is not needed."""

    def __init__(self, address: str, prefix: str) -> None:
        super().__init__(address, prefix)
        self._replace = self._redis.register_script(_REPLACE)

    async def insert(self, task: Task) -> Task:
        key = self._key(task.id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=self._fields(task))
            pipe.zadd(self._owners_list(task), {task.id: microseconds(task.created_at)})
            pipe.pexpireat(key, _expiry(task))
            await pipe.execute()
        return task

    async def get(self, task_id: str) -> Task | None:
        owner, body = await self._redis.hmget(self._key(task_id), "owner", "body")
        return self._codec.load(body, task_id, owner.decode()) if body else None

    async def replace(self, task: Task) -> bool:
        values = [task.version - 1, *self._fields(task).values(), _expiry(task)]
        return await self._replace(keys=[self._key(task.id)], args=values) == 1


def _expiry(task: Task) -> int:
    assert task.expires_at
    return microseconds(task.expires_at) // 1000

-- Return the row.
if scope ~= '' then return redis.call('HGET', key, 'b') end
return {owner, redis.call('HGET', key, 'b')}

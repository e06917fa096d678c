ip -batch - <<END
netns add pl-lab-net
netns add pl-lab-host0
netns add pl-lab-host1
END
ip -n pl-lab-net -batch - <<END
link add pl-core type bridge forward_delay 0 mcast_snooping 0
link set pl-core up
link set lo up
addr add 10.77.7.254/24 dev pl-core
link add pl-h0c type veth peer name eth0 netns pl-lab-host0
link set pl-h0c master pl-core up
link add pl-h1c type veth peer name eth0 netns pl-lab-host1
link set pl-h1c master pl-core up
END
tc -n pl-lab-net -batch - <<END
qdisc add dev pl-h0c root tbf rate 200000000bit burst 128kb latency 20ms
qdisc add dev pl-h1c root tbf rate 200000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host0 -batch - <<END
qdisc add dev eth0 root tbf rate 200000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host1 -batch - <<END
qdisc add dev eth0 root tbf rate 200000000bit burst 128kb latency 20ms
END
ip -n pl-lab-host0 -batch - <<END
link set lo up
addr add 10.77.7.1/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.1 congctl reno
END
ip -n pl-lab-host1 -batch - <<END
link set lo up
addr add 10.77.7.2/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.2 congctl reno
END

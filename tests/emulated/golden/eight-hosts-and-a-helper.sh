ip -batch - <<END
netns add pl-lab-net
netns add pl-lab-host0
netns add pl-lab-host1
netns add pl-lab-host2
netns add pl-lab-host3
netns add pl-lab-host4
netns add pl-lab-host5
netns add pl-lab-host6
netns add pl-lab-host7
netns add pl-lab-helper0
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
link add pl-h2c type veth peer name eth0 netns pl-lab-host2
link set pl-h2c master pl-core up
link add pl-h3c type veth peer name eth0 netns pl-lab-host3
link set pl-h3c master pl-core up
link add pl-h4c type veth peer name eth0 netns pl-lab-host4
link set pl-h4c master pl-core up
link add pl-h5c type veth peer name eth0 netns pl-lab-host5
link set pl-h5c master pl-core up
link add pl-h6c type veth peer name eth0 netns pl-lab-host6
link set pl-h6c master pl-core up
link add pl-h7c type veth peer name eth0 netns pl-lab-host7
link set pl-h7c master pl-core up
link add pl-p0c type veth peer name eth0 netns pl-lab-helper0
link set pl-p0c master pl-core up
END
tc -n pl-lab-net -batch - <<END
qdisc add dev pl-h0c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h1c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h2c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h3c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h4c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h5c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h6c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-h7c root tbf rate 2000000000bit burst 128kb latency 20ms
qdisc add dev pl-p0c root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host0 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host1 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host2 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host3 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host4 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host5 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host6 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-host7 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
END
tc -n pl-lab-helper0 -batch - <<END
qdisc add dev eth0 root tbf rate 2000000000bit burst 128kb latency 20ms
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
ip -n pl-lab-host2 -batch - <<END
link set lo up
addr add 10.77.7.3/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.3 congctl reno
END
ip -n pl-lab-host3 -batch - <<END
link set lo up
addr add 10.77.7.4/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.4 congctl reno
END
ip -n pl-lab-host4 -batch - <<END
link set lo up
addr add 10.77.7.5/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.5 congctl reno
END
ip -n pl-lab-host5 -batch - <<END
link set lo up
addr add 10.77.7.6/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.6 congctl reno
END
ip -n pl-lab-host6 -batch - <<END
link set lo up
addr add 10.77.7.7/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.7 congctl reno
END
ip -n pl-lab-host7 -batch - <<END
link set lo up
addr add 10.77.7.8/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.8 congctl reno
END
ip -n pl-lab-helper0 -batch - <<END
link set lo up
addr add 10.77.7.9/24 dev eth0 noprefixroute
link set eth0 up
route add 10.77.7.0/24 dev eth0 src 10.77.7.9 congctl reno
END
